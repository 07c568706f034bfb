"""Indexes of a watch, for lookups by `watch.by_index(name, value)`."""

from __future__ import annotations

from typing import Any

#: The declaration of an index.
Index = dict[str, Any]


def label(key: str) -> Index:
    """Indexes objects by the value of a label."""
    return {"label": key}


def annotation(key: str) -> Index:
    """Indexes objects by the value of an annotation."""
    return {"annotation": key}


def field(path: str) -> Index:
    """Indexes objects by a field, given as JSONPath: `{.spec.containers[*].image}`. An object with several values is listed under each."""
    return {"field": path}


def owner() -> Index:
    """Indexes objects by the UIDs of their owners."""
    return {"owner": True}


def computed() -> Index:
    """Indexes objects by values that a function of the plugin computes: `@plugin.index(name)`."""
    return {"computed": True}
