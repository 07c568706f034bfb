"""More work, beyond what the triggers of the watches make."""

from __future__ import annotations

from datetime import timedelta

from ._duration import milliseconds
from ._wit import key as wit_key
from ._wit import queue as wit


def add(watch: str, key: tuple[str, str], *, after: timedelta | None = None) -> None:
    """Queues an object of a target watch, now or after a time. The object need not exist.

    It is in the queue once, however often it is added; of two delays the earlier wins. The one being reconciled runs once more
    afterwards. A watch that is no target ends the call, with a message that lists the targets.
    """
    if after is None:
        wit.add(watch, wit_key(key))
    else:
        wit.add_after(watch, wit_key(key), milliseconds(after))
