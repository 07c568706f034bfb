"""Triggers: which object a change of a watched object queues.

Work always is for an object of a *target watch*, that is, a watch whose trigger is `ITSELF`. A watch without a trigger is only cached.
"""

from __future__ import annotations

from typing import Any

from .cache import Cache

#: The declaration of a trigger.
Trigger = str | dict[str, Any]

#: Queues the changed object itself.
ITSELF: Trigger = "self"


def owner(watch: str | Cache) -> Trigger:
    """Queues the controlling owner, an object of the target watch."""
    return {"owner": {"watch": name_of(watch)}}


def every_owner(watch: str | Cache) -> Trigger:
    """Queues every owner that is an object of the target watch."""
    return {"ownerAny": {"watch": name_of(watch)}}


def label(key: str, watch: str | Cache) -> Trigger:
    """Queues the object of the target watch that the label's value names, in the same namespace."""
    return {"label": {"key": key, "watch": name_of(watch)}}


def field(path: str, watch: str | Cache, *, namespace_path: str | None = None) -> Trigger:
    """Queues the objects of the target watch that the field's values name, in the same namespace or in the one that another field names.
    Both paths are JSONPaths."""
    names = {"path": path, "watch": name_of(watch)}
    if namespace_path is not None:
        names["namespacePath"] = namespace_path
    return {"field": names}


def index(watch: str | Cache, index: str) -> Trigger:
    """Queues every object of the target watch that has this object's key as a value of the index: for a Secret, the Ingresses that use it."""
    return {"index": {"watch": name_of(watch), "index": index}}


def namespace(watch: str | Cache) -> Trigger:
    """Queues every object of the target watch in this object's namespace; a Namespace queues every one in it."""
    return {"namespace": {"watch": name_of(watch)}}


def name_of(watch: str | Cache) -> str:
    """Returns the name of a watch, given the watch or its name."""
    return watch if isinstance(watch, str) else watch.name
