"""Finalizers: cleanup that must happen before an object is deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import client
from .errors import NotFound
from .object import Object, key_of, metadata_of, type_of
from .plugin import Outcome


def run(
    thing: Object | Mapping[str, Any],
    name: str,
    *,
    apply: Callable[[], Outcome],
    cleanup: Callable[[], Outcome],
) -> Outcome:
    """Calls `apply` while the object exists and `cleanup` once it is being deleted, and maintains the finalizer `name`: it is added
    before the first `apply` and removed after a successful `cleanup`. `name` has the form of a qualified label key:
    `example.com/cleanup`.

    The plugin must declare `patch` on the object. A `Conflict` means that the object changed in the meantime; the retry sees the change.
    """
    metadata = metadata_of(thing)
    present: list[str] = metadata.get("finalizers") or []
    if not metadata.get("deletionTimestamp"):
        if name not in present:
            _set(thing, metadata, [*present, name])
        return apply()
    if name not in present:
        # The object is being deleted without this finalizer: no new work may be started.
        return None
    outcome = cleanup()
    try:
        _set(thing, metadata, [other for other in present if other != name])
    except NotFound:
        # Another client removed the last finalizer, and the object is gone, as intended.
        pass
    return outcome


def _set(thing: Object | Mapping[str, Any], metadata: Mapping[str, Any], finalizers: list[str]) -> None:
    """Replaces the finalizers by a merge patch. It includes the resource version that the list was read at, so that a concurrent
    change causes a conflict instead of being lost."""
    body = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata.get("resourceVersion")}}
    client.patch(*type_of(thing), key_of(thing), body)
