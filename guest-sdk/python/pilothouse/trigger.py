"""Which object is queued when one of a watch changes.

Work always names an object of a *target* watch, one whose trigger is `ITSELF`. Without a trigger a watch only fills the cache.
"""

from __future__ import annotations

from typing import Any

from .cache import Cache

#: What these functions make.
Trigger = str | dict[str, Any]

#: The object itself.
ITSELF: Trigger = "self"


def owner(watch: str | Cache) -> Trigger:
    """Its controlling owner, an object of the target watch."""
    return {"owner": {"watch": name_of(watch)}}


def every_owner(watch: str | Cache) -> Trigger:
    """Each owner that is an object of the target watch."""
    return {"ownerAny": {"watch": name_of(watch)}}


def label(key: str, watch: str | Cache) -> Trigger:
    """The object of the target watch that the label's value names, in the same namespace."""
    return {"label": {"key": key, "watch": name_of(watch)}}


def field(path: str, watch: str | Cache, *, namespace_path: str | None = None) -> Trigger:
    """The objects of the target watch that a field's value or values name, by JSONPath; the namespace may be in another field."""
    names = {"path": path, "watch": name_of(watch)}
    if namespace_path is not None:
        names["namespacePath"] = namespace_path
    return {"field": names}


def index(watch: str | Cache, index: str) -> Trigger:
    """Every object of the target watch that has this object's key as a value of its index: a Secret, and the Ingresses that use it."""
    return {"index": {"watch": name_of(watch), "index": index}}


def name_of(watch: str | Cache) -> str:
    """The name of a watch, given it or the name."""
    return watch if isinstance(watch, str) else watch.name
