"""Selectors, indexes and pages of the fake host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ._patches import ABSENT, at
from .key import ObjectKey
from .object import Manifest


class InvalidSelector(Exception):
    """A label selector does not parse."""


_KEY = r"([A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_VALUE = r"((?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?)"
_PRESENCE = re.compile(rf"(!?)\s*{_KEY}")
_EQUALITY = re.compile(rf"{_KEY}\s*(==|=|!=|>|<)\s*{_VALUE}")
_SET = re.compile(rf"{_KEY}\s+(in|notin)\s*\(([^()]*)\)")


def matches(selector: str, labels: dict[str, str]) -> bool:
    """Returns whether labels match a selector in kubectl's syntax."""
    if not selector.strip():
        return True
    terms = [term.strip() for term in re.split(r",(?![^(]*\))", selector)]
    # All terms are read, so that a malformed one is found whatever the labels are.
    return all([_fits(term, labels, selector) for term in terms])


def _fits(term: str, labels: dict[str, str], selector: str) -> bool:
    if found := _PRESENCE.fullmatch(term):
        absent, key = found.groups()
        return (key in labels) != bool(absent)
    if found := _SET.fullmatch(term):
        key, operator, values = found.groups()
        return (labels.get(key) in [value.strip() for value in values.split(",")]) == (operator == "in")
    if found := _EQUALITY.fullmatch(term):
        key, operator, value = found.groups()
        if operator in "><":
            return _compares(labels.get(key, ""), operator, value)
        return (labels.get(key) == value) == (operator != "!=")
    raise InvalidSelector(f"label selector {selector!r} doesn't parse: {term!r} is not a requirement")


def _compares(label: str, operator: str, value: str) -> bool:
    try:
        return int(label) > int(value) if operator == ">" else int(label) < int(value)
    except ValueError:
        return False


def matches_fields(selector: str, manifest: Manifest) -> bool:
    """Returns whether an object matches a field selector. Unlike a server, it accepts every field."""
    for term in filter(None, (term.strip() for term in selector.split(","))):
        path, operator, wanted = re.split(r"(!=|==|=)", term, maxsplit=1)
        found = at(manifest, "/" + path.strip().replace(".", "/"))
        if (_text(found) == wanted.strip()) != (operator != "!="):
            return False
    return True


def _text(value: Any) -> str:
    if value is ABSENT or value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def narrowed(found: Iterable[Manifest], namespace: str, labels: str, fields: str = "") -> list[Manifest]:
    """Returns the objects in a namespace ("" for all) that match the selectors."""
    matches(labels, {})
    return [
        one
        for one in found
        if (not namespace or ObjectKey.of(one).namespace == namespace)
        and matches(labels, one["metadata"].get("labels") or {})
        and matches_fields(fields, one)
    ]


def page(found: list[Manifest], limit: int, cursor: str) -> tuple[list[Manifest], str]:
    """Returns a page of the objects after the cursor, and the next cursor. The objects are sorted by namespace, then name."""
    rest = [one for one in found if not cursor or ObjectKey.of(one) > ObjectKey.parse(cursor)]
    taken = rest[:limit]
    return taken, str(ObjectKey.of(taken[-1])) if len(rest) > limit else ""


def index_values(index: dict[str, Any], manifest: Manifest) -> list[str]:
    """Returns the values of a declared index."""
    metadata = manifest["metadata"]
    if "label" in index:
        values = [(metadata.get("labels") or {}).get(index["label"])]
    elif "annotation" in index:
        values = [(metadata.get("annotations") or {}).get(index["annotation"])]
    elif "owner" in index:
        values = [owner.get("uid") for owner in metadata.get("ownerReferences") or []]
    else:
        values = json_path(manifest, index["field"])
    return [_text(value) for value in values if value is not None and not isinstance(value, (dict, list))]


_STEP = re.compile(r"""\.?\[(?:(\*)|(\d+)|'([^']*)'|"([^"]*)")\]|\.((?:\\.|[^.\[\]{}'" \\])+)""")


def json_path(value: Any, path: str) -> list[Any]:
    """Returns the values at a JSONPath of members, positions and `[*]`, which are all that the host supports."""
    text = path.removeprefix("{").removesuffix("}").removeprefix("$")
    found, end = [value], 0
    while end < len(text):
        step = _STEP.match(text, end)
        if step is None:
            raise ValueError(f"{path!r} is not a JSONPath that the host evaluates, at {text[end:]!r}")
        end = step.end()
        every, position, single, double, name = step.groups()
        if every or name == "*":
            found = [inner for one in found for inner in _members(one)]
        elif position:
            found = [one[int(position)] for one in found if isinstance(one, list) and int(position) < len(one)]
        else:
            member = next(text for text in (single, double, name and re.sub(r"\\(.)", r"\1", name)) if text is not None)
            found = [one[member] for one in found if isinstance(one, dict) and member in one]
    return found


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else []
