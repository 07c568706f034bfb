"""Finalizers: cleaning up outside the cluster before an object goes."""

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
    """Calls `apply` while the object lives, with the finalizer `name` on it before the first time, and `cleanup` when it is being
    deleted, after which the finalizer goes and lets it go. `name` looks like a qualified label key: `example.com/cleanup`.

    The plugin must declare `patch` on the object. A `Conflict` means that it changed meanwhile; the retry sees it.
    """
    metadata = metadata_of(thing)
    present: list[str] = metadata.get("finalizers") or []
    if not metadata.get("deletionTimestamp"):
        if name not in present:
            _set(thing, metadata, [*present, name])
        return apply()
    if name not in present:
        # Being deleted, and not held by this finalizer: nothing may be started any more.
        return None
    outcome = cleanup()
    try:
        _set(thing, metadata, [other for other in present if other != name])
    except NotFound:
        # Somebody else removed the last finalizer: it is gone, as intended.
        pass
    return outcome


def _set(thing: Object | Mapping[str, Any], metadata: Mapping[str, Any], finalizers: list[str]) -> None:
    """A merge patch replaces the list whole, so it names the version that the list was read from: a change by somebody else in
    between is a conflict, not lost."""
    body = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata.get("resourceVersion")}}
    client.patch(*type_of(thing), key_of(thing), body)
