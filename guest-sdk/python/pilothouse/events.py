"""Kubernetes Events, the ones that `kubectl describe` shows.

Like ones are aggregated by the host; writing never waits and never fails. `reason` and `action` are UpperCamelCase words for
machines (`Created`, `Scaling`), `note` a sentence for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import client, log
from ._wit import events as wit
from .errors import ApiError
from .object import Object, key_of, type_of


def normal(regarding: Object | Mapping[str, Any], reason: str, action: str, note: str) -> None:
    """Something went as it should."""
    _publish(regarding, wit.EventType.NORMAL, reason, action, note)


def warning(regarding: Object | Mapping[str, Any], reason: str, action: str, note: str) -> None:
    """Something that somebody may have to look at."""
    _publish(regarding, wit.EventType.WARNING, reason, action, note)


def _publish(
    regarding: Object | Mapping[str, Any], event_type: wit.EventType, reason: str, action: str, note: str
) -> None:
    known = regarding if isinstance(regarding, Object) else _live(regarding)
    if known is None:
        described = f"{' '.join(type_of(regarding))} {key_of(regarding)}"
        log.warn(f"no Event: {described} is not known to the host; it would have said: {note}", reason=reason)
        return
    wit.publish(known.handle, event_type, reason, action, note)


def _live(manifest: Mapping[str, Any]) -> Object | None:
    """The handle of a manifest: an Event needs one, and the server has it."""
    try:
        return client.get(*type_of(manifest), key_of(manifest))
    except ApiError:
        return None
