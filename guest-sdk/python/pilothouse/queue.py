"""Queueing work in addition to what the triggers of the watches queue."""

from __future__ import annotations

from datetime import timedelta

from ._duration import milliseconds
from ._wit import key as wit_key
from ._wit import queue as wit


def add(watch: str, key: tuple[str, str], *, after: timedelta | None = None) -> None:
    """Queues an object of a target watch, now or after a delay. The object need not exist.

    The queue holds a key at most once, and of several delays the earliest applies. Adding the key that is being reconciled runs it once
    more afterwards. A watch that is not a target watch ends the call, with a message that lists the target watches.
    """
    if after is None:
        wit.add(watch, wit_key(key))
    else:
        wit.add_after(watch, wit_key(key), milliseconds(after))
