"""Finalizers: cleanup that must happen before an object is deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from . import client
from .errors import NotFound
from .object import Manifest, Object, key_of, metadata_of, type_of
from .plugin import Outcome

T = TypeVar("T", Object, Manifest)


def run(thing: T, name: str, *, apply: Callable[[T], Outcome], cleanup: Callable[[T], Outcome]) -> Outcome:
    """Calls `apply` while the object exists and `cleanup` once it is being deleted, and maintains the finalizer `name`: it is added
    before the first `apply` and removed after a successful `cleanup`. `name` has the form of a qualified label key:
    `example.com/cleanup`.

    Both functions receive the object, with the finalizer. Use this one from then on: adding the finalizer changes the resource version, so
    an update of `thing` itself would conflict.

    The plugin must declare `patch` on the object. A `Conflict` means that the object changed in the meantime; the retry sees the change.
    """
    metadata = metadata_of(thing)
    present: list[str] = metadata.get("finalizers") or []
    if not metadata.get("deletionTimestamp"):
        return apply(thing if name in present else _set(thing, [*present, name]))
    if name not in present:
        # The object is being deleted without this finalizer: no new work may be started.
        return None
    outcome = cleanup(thing)
    try:
        _set(thing, [other for other in present if other != name])
    except NotFound:
        # Another client removed the last finalizer, and the object is gone, as intended.
        pass
    return outcome


def _set(thing: T, finalizers: list[str]) -> T:
    """Replaces the finalizers by a merge patch, and returns the object as stored. The patch includes the resource version that the list was
    read at, so that a concurrent change causes a conflict instead of being lost."""
    version = metadata_of(thing).get("resourceVersion")
    body = {"metadata": {"finalizers": finalizers, "resourceVersion": version}}
    stored = client.patch(*type_of(thing), key_of(thing), body)
    return stored if isinstance(thing, Object) else stored.json()
