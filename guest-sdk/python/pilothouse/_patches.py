"""JSON pointers, JSON Merge Patch and JSON Patch, for the fake API server."""

from __future__ import annotations

import copy
from typing import Any

#: Nothing is at a pointer.
ABSENT: Any = object()


class Malformed(Exception):
    """The text is not a JSON Patch."""


class Failed(Exception):
    """An operation of a JSON Patch cannot be applied."""


def at(value: Any, pointer: str) -> Any:
    """Returns the value at a JSON pointer (RFC 6901), or `ABSENT`."""
    for token in _tokens(pointer):
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return ABSENT
    return value


def put(value: Any, pointer: str, new: Any) -> None:
    """Sets the value at a JSON pointer in nested objects, which are created as needed."""
    *parents, last = _tokens(pointer)
    for token in parents:
        if not isinstance(value.get(token), dict):
            value[token] = {}
        value = value[token]
    value[last] = new


def drop(value: Any, pointer: str) -> None:
    """Removes the value at a JSON pointer in nested objects, with the objects around it that become empty."""
    first, *rest = _tokens(pointer)
    if not isinstance(value, dict) or first not in value:
        return
    if rest:
        drop(value[first], "".join("/" + escaped(token) for token in rest))
    if not rest or value[first] == {}:
        del value[first]


def leaves(value: Any, pointer: str = "") -> dict[str, Any]:
    """Returns the values by pointer. Lists and empty objects count as values."""
    if not isinstance(value, dict) or not value:
        return {pointer: value}
    found: dict[str, Any] = {}
    for name, inner in value.items():
        found.update(leaves(inner, f"{pointer}/{escaped(name)}"))
    return found


def escaped(token: str) -> str:
    """Returns a name as a segment of a JSON pointer."""
    return token.replace("~", "~0").replace("/", "~1")


def _tokens(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def merged(present: Any, change: Any) -> Any:
    """Applies a JSON Merge Patch (RFC 7386)."""
    if not isinstance(change, dict):
        return change
    result = dict(present) if isinstance(present, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def patched(value: Any, operations: Any) -> Any:
    """Applies a JSON Patch (RFC 6902)."""
    if not isinstance(operations, list):
        raise Malformed("a JSON patch is a list of operations")
    box = {"": copy.deepcopy(value)}
    for operation in operations:
        _apply(box, _checked(operation))
    return box[""]


_ARGUMENT = {"add": "value", "replace": "value", "test": "value", "remove": "path", "move": "from", "copy": "from"}


def _checked(operation: Any) -> dict[str, Any]:
    name = operation.get("op") if isinstance(operation, dict) else None
    if name not in _ARGUMENT:
        raise Malformed(f"unknown operation {name!r}")
    for pointer in ("path", "from"):
        text = operation.get(pointer, "")
        if not isinstance(text, str) or (text and not text.startswith("/")):
            raise Malformed(f"{pointer} {text!r} is not a JSON pointer")
    if "path" not in operation or _ARGUMENT[name] not in operation:
        raise Malformed(f"the operation {name} needs path and {_ARGUMENT[name]}")
    return dict(operation)


def _apply(box: Any, operation: dict[str, Any]) -> None:
    name, path = operation["op"], operation["path"]
    # The document is the member "" of `box`, so that the whole document can be replaced as well.
    source = at(box, "/" + operation.get("from", ""))
    if name in ("move", "copy"):
        if source is ABSENT:
            raise Failed(f"nothing is at {operation['from']}")
        if name == "move":
            _remove(box, operation["from"])
        _add(box, path, copy.deepcopy(source))
    elif name == "add":
        _add(box, path, copy.deepcopy(operation["value"]))
    elif name == "remove":
        _remove(box, path)
    elif name == "replace":
        _remove(box, path)
        _add(box, path, copy.deepcopy(operation["value"]))
    elif at(box, "/" + path) != operation["value"]:
        raise Failed(f"the test of {path} failed")


def _container(box: Any, path: str) -> tuple[Any, str]:
    *parents, last = ["", *_tokens(path)]
    found = at(box, "".join("/" + escaped(token) for token in parents))
    if not isinstance(found, (dict, list)):
        raise Failed(f"nothing is at {path}")
    return found, last


def _add(box: Any, path: str, value: Any) -> None:
    container, last = _container(box, path)
    if isinstance(container, dict):
        container[last] = value
        return
    position = len(container) if last == "-" else int(last) if last.isdigit() else -1
    if not 0 <= position <= len(container):
        raise Failed(f"{path} is not a position in the list")
    container.insert(position, value)


def _remove(box: Any, path: str) -> None:
    container, last = _container(box, path)
    if at({"": container}, "//" + escaped(last)) is ABSENT:
        raise Failed(f"nothing is at {path}")
    del container[int(last) if isinstance(container, list) else last]
