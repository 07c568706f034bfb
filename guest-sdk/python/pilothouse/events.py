"""Recording Kubernetes Events, which `kubectl describe` shows.

The host counts equal Events as one; recording one never waits or fails. `reason` and `action` are UpperCamelCase identifiers (`Created`,
`Scaling`); `note` is a sentence for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import client, log
from ._wit import events as wit
from .errors import ApiError
from .object import Object, key_of, type_of


def normal(regarding: Object | Mapping[str, Any], reason: str, action: str, note: str) -> None:
    """Records a normal Event."""
    _publish(regarding, wit.EventType.NORMAL, reason, action, note)


def warning(regarding: Object | Mapping[str, Any], reason: str, action: str, note: str) -> None:
    """Records a warning, for what may need attention."""
    _publish(regarding, wit.EventType.WARNING, reason, action, note)


def _publish(
    regarding: Object | Mapping[str, Any], event_type: wit.EventType, reason: str, action: str, note: str
) -> None:
    live = regarding if isinstance(regarding, Object) else _live(regarding)
    if live is None:
        described = f"{' '.join(type_of(regarding))} {key_of(regarding)}"
        log.warn(f"no Event: {described} is not known to the host; it would have said: {note}", reason=reason)
        return
    wit.publish(live.handle, event_type, reason, action, note)


def _live(manifest: Mapping[str, Any]) -> Object | None:
    """Returns the handle of a manifest's object from the server; recording an Event requires one."""
    try:
        return client.get(*type_of(manifest), key_of(manifest))
    except ApiError:
        return None
