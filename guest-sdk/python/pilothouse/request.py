"""What the host asks of a plugin."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ._wit import changes as wit_changes
from ._wit import types as wit
from .key import ObjectKey
from .object import Object, opened


class Reason(StrEnum):
    """Why a key is in the queue."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    RESYNC = "resync"
    REQUEUE = "requeue"
    RETRY = "retry"
    STARTUP = "startup"
    OTHER = "other"


class Change(StrEnum):
    """What happened to an object in a watch."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"
    RESYNC = "resync"


@dataclass(frozen=True)
class Request:
    """Work: one object of one target watch. The object itself is read from the watch; it may be gone by now."""

    #: The name of the target watch.
    watch: str
    key: ObjectKey
    #: Every reason merged into this item. They inform; a correct reconcile gives the same result without them.
    reasons: frozenset[Reason] = frozenset()
    #: How many times in a row this key has failed: 0 the first time.
    attempt: int = 0
    #: What later versions of the host tell; ignore what you don't know.
    extra: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_wit(cls, request: wit.Request) -> Request:
        """The request in the SDK's form."""
        return cls(
            request.watch,
            ObjectKey(request.key.namespace, request.key.name),
            frozenset(Reason[reason.name] for reason in request.reasons),
            request.attempt,
            tuple((pair.key, pair.value) for pair in request.extra),
        )


class Notification:
    """One change, as an observer is told of it. The objects are read while the call lasts."""

    def __init__(self, notification: Any, batch: wit_changes.Batch, position: int) -> None:
        self._batch = batch
        self._position = position
        #: The name of the watch.
        self.watch: str = notification.watch
        self.change = Change[notification.change.name]
        self.key = ObjectKey(notification.key.namespace, notification.key.name)
        #: An addition that replays what was there before this instance saw it.
        self.initial: bool = notification.initial
        #: A deletion that the watch missed: the last state known may be older than the last one there was.
        self.final_state_unknown: bool = notification.final_state_unknown

    @property
    def before(self) -> Object | None:
        """The state before: None for an addition. Of a deletion, the last state known."""
        return opened(self._batch.before(self._position))

    @property
    def after(self) -> Object | None:
        """The state after: None for a deletion."""
        return opened(self._batch.after(self._position))

    def after_field(self, pointer: str, default: Any = None) -> Any:
        """`after.field(pointer, default)` in one call, without a handle; `default` too when there is no state after."""
        text = self._batch.after_field(self._position, pointer)
        return default if text is None else json.loads(text)

    def after_raw(self, pointer: str) -> str | None:
        """`after.raw(pointer)` in one call, without a handle."""
        return self._batch.after_field(self._position, pointer)

    def __repr__(self) -> str:
        return f"Notification({self.change} of {self.key} in {self.watch})"
