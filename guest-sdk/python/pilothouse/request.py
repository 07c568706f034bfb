"""The work items and notifications that a plugin receives."""

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
    """Why a key was queued."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    RESYNC = "resync"
    REQUEUE = "requeue"
    RETRY = "retry"
    STARTUP = "startup"
    OTHER = "other"


class Change(StrEnum):
    """What happened to an object of a watch."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"
    RESYNC = "resync"


@dataclass(frozen=True)
class Request:
    """One item of work: an object of a target watch. Read the object from the watch; it may have been deleted since it was queued."""

    #: The name of the target watch.
    watch: str
    key: ObjectKey
    #: All reasons merged into this item. They are informational: a correct reconcile produces the same result without them.
    reasons: frozenset[Reason] = frozenset()
    #: The number of consecutive failures of this key: 0 on the first attempt.
    attempt: int = 0
    #: Reserved for additions by later versions of the host; ignore keys that you don't know.
    extra: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_wit(cls, request: wit.Request) -> Request:
        """Converts a request of the contract."""
        return cls(
            request.watch,
            ObjectKey(request.key.namespace, request.key.name),
            frozenset(Reason[reason.name] for reason in request.reasons),
            request.attempt,
            tuple((pair.key, pair.value) for pair in request.extra),
        )


class Notification:
    """One change of one object. Its objects can be read until the call returns."""

    def __init__(self, notification: Any, batch: wit_changes.Batch, position: int) -> None:
        self._batch = batch
        self._position = position
        #: The name of the watch.
        self.watch: str = notification.watch
        self.change = Change[notification.change.name]
        self.key = ObjectKey(notification.key.namespace, notification.key.name)
        #: Whether this addition replays an object that existed before this instance started to observe.
        self.initial: bool = notification.initial
        #: Whether the watch missed this deletion, so that the last known state may be older than the object's final state.
        self.final_state_unknown: bool = notification.final_state_unknown

    @property
    def before(self) -> Object | None:
        """The object before the change: None for an addition, the last known state for a deletion."""
        return opened(self._batch.before(self._position))

    @property
    def after(self) -> Object | None:
        """The object after the change; None for a deletion."""
        return opened(self._batch.after(self._position))

    def after_field(self, pointer: str, default: Any = None) -> Any:
        """Returns `after.field(pointer, default)` in one call, without opening a handle; `default` for a deletion."""
        text = self._batch.after_field(self._position, pointer)
        return default if text is None else json.loads(text)

    def after_raw(self, pointer: str) -> str | None:
        """Returns `after.raw(pointer)` in one call, without opening a handle."""
        return self._batch.after_field(self._position, pointer)

    def __repr__(self) -> str:
        return f"Notification({self.change} of {self.key} in {self.watch})"
