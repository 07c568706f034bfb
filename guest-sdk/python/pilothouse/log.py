"""The plugin's log. The host adds the plugin to every line, and in a reconcile the watch and the key.

    log.info("scaled", deployment=name, replicas=3)

Records of the standard library's `logging` go to this log too, with their `extra` as fields.
"""

from __future__ import annotations

import logging

from ._wit import log as wit
from ._wit import pairs


def debug(message: str, /, **fields: object) -> None:
    """Writes a debug line."""
    _write(wit.Level.DEBUG, message, fields)


def info(message: str, /, **fields: object) -> None:
    """Writes an info line."""
    _write(wit.Level.INFO, message, fields)


def warn(message: str, /, **fields: object) -> None:
    """Writes a warning."""
    _write(wit.Level.WARN, message, fields)


def error(message: str, /, **fields: object) -> None:
    """Writes an error line."""
    _write(wit.Level.ERROR, message, fields)


def _write(level: wit.Level, message: str, fields: dict[str, object]) -> None:
    wit.log(level, message, pairs({key: str(value) for key, value in fields.items()}))


class Handler(logging.Handler):
    """Sends records of `logging` to the host. In a plugin the root logger has this handler."""

    #: The attributes that every record has; all others were given as `extra`.
    _STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the record as a line of the plugin's log."""
        try:
            extra = {key: value for key, value in vars(record).items() if key not in self._STANDARD}
            if record.name != "root":
                extra["logger"] = record.name
            _write(_level(record.levelno), self.format(record), extra)
        except Exception:
            self.handleError(record)


def _level(number: int) -> wit.Level:
    if number >= logging.ERROR:
        return wit.Level.ERROR
    if number >= logging.WARNING:
        return wit.Level.WARN
    return wit.Level.INFO if number >= logging.INFO else wit.Level.DEBUG


def install() -> None:
    """Makes `logging` write to the host, from level info up. A plugin can change the level: `logging.getLogger().setLevel(…)`."""
    root = logging.getLogger()
    if not any(isinstance(handler, Handler) for handler in root.handlers):
        root.addHandler(Handler())
        root.setLevel(logging.INFO)
