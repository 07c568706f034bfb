"""A ConfigMap with an operation and its arguments."""

from pilothouse import Object, Request, log


class Script:
    """An operation with its arguments, such as `script.a`; missing ones are ""."""

    def __init__(self, request: Request, handle: Object):
        self.request = request
        #: The ConfigMap.
        self.object = handle
        data = handle.field("/data", {})
        self.op = data.get("op", "")
        self.a, self.b, self.c, self.d, self.e, self.f, self.g = (data.get(name, "") for name in "abcdefg")
        self.body = data.get("body", "")

    @property
    def is_first_attempt(self) -> bool:
        return self.request.attempt == 0

    def result(self, value: object) -> None:
        """Logs the operation's value."""
        log.info("result", op=self.op, value=value)
