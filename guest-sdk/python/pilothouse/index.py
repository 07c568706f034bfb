"""Ways to find objects by a value: `watch.by_index(name, value)`."""

from __future__ import annotations

from typing import Any

#: What these functions make.
Index = dict[str, Any]


def label(key: str) -> Index:
    """By the value of a label."""
    return {"label": key}


def annotation(key: str) -> Index:
    """By the value of an annotation."""
    return {"annotation": key}


def field(path: str) -> Index:
    """By a field, in JSONPath: `{.spec.containers[*].image}`. Several values index the object under each."""
    return {"field": path}


def owner() -> Index:
    """By the UIDs of the owners."""
    return {"owner": True}


def computed() -> Index:
    """By what the plugin's own function says: `@plugin.index(name)`."""
    return {"computed": True}
