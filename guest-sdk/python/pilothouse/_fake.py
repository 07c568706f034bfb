"""The in-memory cluster of `pilothouse.testing`, which imitates the API server and the host's cache."""

from __future__ import annotations

import copy
import json
import re
from types import SimpleNamespace
from typing import Any, Self

from . import _standin
from ._standin import client, objects, types
from .key import ObjectKey
from .object import Manifest

_ABSENT: Any = object()


class Object:
    """A handle of the contract that reads a manifest."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = copy.deepcopy(manifest)
        self._metadata: dict[str, Any] = self._manifest.get("metadata") or {}

    def key(self) -> types.ObjectKey:
        return types.ObjectKey(*ObjectKey.of(self._manifest))

    def api_version(self) -> str:
        return str(self._manifest.get("apiVersion", ""))

    def kind(self) -> str:
        return str(self._manifest.get("kind", ""))

    def uid(self) -> str:
        return str(self._metadata.get("uid", ""))

    def resource_version(self) -> str:
        return str(self._metadata.get("resourceVersion", ""))

    def generation(self) -> int:
        return int(self._metadata.get("generation", 0))

    def labels(self) -> list[types.Pair]:
        return [types.Pair(key, value) for key, value in (self._metadata.get("labels") or {}).items()]

    def label(self, key: str) -> str | None:
        return (self._metadata.get("labels") or {}).get(key)

    def annotation(self, key: str) -> str | None:
        return (self._metadata.get("annotations") or {}).get(key)

    def deletion_timestamp(self) -> str | None:
        return self._metadata.get("deletionTimestamp")

    def controller(self) -> objects.Owner | None:
        for owner in self._metadata.get("ownerReferences") or []:
            if owner.get("controller"):
                return objects.Owner(owner["apiVersion"], owner["kind"], owner["name"], owner["uid"])
        return None

    def field(self, pointer: str) -> str | None:
        found = at(self._manifest, pointer)
        return None if found is _ABSENT else json.dumps(found, ensure_ascii=False, separators=(",", ":"))

    def text(self, pointer: str) -> str | None:
        found = at(self._manifest, pointer)
        return found if isinstance(found, str) else self.field(pointer)

    def fields(self, pointers: list[str]) -> list[str | None]:
        return [self.field(pointer) for pointer in pointers]

    def texts(self, pointers: list[str]) -> list[str | None]:
        return [self.text(pointer) for pointer in pointers]

    def json(self) -> str:
        return json.dumps(self._manifest, ensure_ascii=False, separators=(",", ":"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Batch:
    """The objects behind the notifications of one call."""

    def __init__(self, states: list[tuple[Manifest | None, Manifest | None]]) -> None:
        self._states = states

    def before(self, position: int) -> Object | None:
        before = self._states[position][0]
        return None if before is None else Object(before)

    def after(self, position: int) -> Object | None:
        after = self._states[position][1]
        return None if after is None else Object(after)

    def after_field(self, position: int, pointer: str) -> str | None:
        after = self.after(position)
        return None if after is None else after.field(pointer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def notification(watch: str, before: Manifest | None, after: Manifest | None, initial: bool) -> Any:
    """Returns a notification of the contract."""
    change = "ADDED" if before is None else "DELETED" if after is None else "UPDATED"
    key = types.ObjectKey(*ObjectKey.of(after or before or {}))
    return SimpleNamespace(
        watch=watch, change=types.Change[change], key=key, initial=initial, final_state_unknown=False
    )


class Cluster:
    """The objects of a fake API server, by kind and key."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, ObjectKey], Manifest] = {}
        self._version = 0

    def find(self, api_version: str, kind: str, key: ObjectKey) -> Manifest | None:
        return self._objects.get((api_version, kind, key))

    def require(self, api_version: str, kind: str, key: ObjectKey) -> Manifest:
        found = self.find(api_version, kind, key)
        if found is None:
            raise _standin.Err(types.ApiError_NotFound(f"{api_version} {kind} {key}"))
        return found

    def select(self, api_version: str, kind: str, labels: str) -> list[Manifest]:
        of_kind = [one for slot, one in self._objects.items() if slot[:2] == (api_version, kind)]
        return narrowed(sorted(of_kind, key=ObjectKey.of), "", labels)

    def put(self, manifest: Manifest) -> Manifest:
        self._version += 1
        metadata = manifest.setdefault("metadata", {})
        if not metadata.get("name"):
            metadata["name"] = f"{metadata.get('generateName', 'object-')}{self._version}"
        metadata.setdefault("uid", f"uid-{self._version}")
        metadata["resourceVersion"] = str(self._version)
        slot = (manifest["apiVersion"], manifest["kind"], ObjectKey.of(manifest))
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._objects.pop(slot, None)
        else:
            self._objects[slot] = manifest
        return manifest

    def create(self, manifest: Manifest) -> Manifest:
        key = ObjectKey.of(manifest)
        if key.name and self.find(manifest["apiVersion"], manifest["kind"], key):
            raise _standin.Err(types.ApiError_AlreadyExists(f"{manifest['kind']} {key}"))
        return self.put(manifest)

    def update(self, manifest: Manifest, subresource: str) -> Manifest:
        present = self.require(manifest["apiVersion"], manifest["kind"], ObjectKey.of(manifest))
        version = manifest["metadata"].get("resourceVersion")
        current = present["metadata"]["resourceVersion"]
        if version and version != current:
            message = "the object has been modified; apply your changes to the latest version and try again"
            raise _standin.Err(types.ApiError_Conflict(types.ConflictInfo(message, current)))
        if subresource:
            manifest = {**copy.deepcopy(present), subresource: manifest.get(subresource)}
        manifest["metadata"]["uid"] = present["metadata"]["uid"]
        return self.put(manifest)

    def patch(self, named: Manifest, patch_type: Any, body: Any, subresource: str) -> Manifest:
        key = ObjectKey.of(named)
        is_apply = isinstance(patch_type, client.PatchType_Apply)
        present = self.find(named["apiVersion"], named["kind"], key)
        if present is None and is_apply:
            return self.put(body)
        present = copy.deepcopy(self.require(named["apiVersion"], named["kind"], key))
        if isinstance(patch_type, client.PatchType_Json):
            raise NotImplementedError("pilothouse.testing does not support JSON Patch: use form=\"merge\", or test with `pilothouse dev`")
        return self.update(merged(present, body), subresource)

    def delete(self, api_version: str, kind: str, key: ObjectKey, uid: str, version: str) -> None:
        present = self.require(api_version, kind, key)
        metadata = present["metadata"]
        if (uid and uid != metadata["uid"]) or (version and version != metadata["resourceVersion"]):
            info = types.ConflictInfo("the precondition does not hold", metadata["resourceVersion"])
            raise _standin.Err(types.ApiError_Conflict(info))
        metadata.setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
        self.put(present)


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


def at(value: Any, pointer: str) -> Any:
    """Returns the value at a JSON pointer (RFC 6901), or `_ABSENT`."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return _ABSENT
    return value


def narrowed(found: list[Manifest], namespace: str, labels: str, fields: str = "") -> list[Manifest]:
    """Those in the namespace with these labels and fields."""
    for term in filter(None, fields.split(",")):
        path, _, wanted = term.partition("=")
        pointer = "/" + path.strip().replace(".", "/")
        found = [one for one in found if at(one, pointer) == wanted.lstrip("=").strip()]
    return [
        one
        for one in found
        if (not namespace or ObjectKey.of(one).namespace == namespace)
        and matches(labels, one["metadata"].get("labels") or {})
    ]


_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")


def matches(selector: str, labels: dict[str, str]) -> bool:
    """Whether labels fit a selector in kubectl's syntax."""
    for term in (term.strip() for term in re.split(r",(?![^(]*\))", selector) if term.strip()):
        if found := _SET.match(term):
            key, operator, values = found.groups()
            is_in = labels.get(key) in [value.strip() for value in values.split(",")]
            fits = is_in == (operator == "in")
        elif "!=" in term:
            key, _, value = term.partition("!=")
            fits = labels.get(key.strip()) != value.strip()
        elif "=" in term:
            key, _, value = term.replace("==", "=").partition("=")
            fits = labels.get(key.strip()) == value.strip()
        else:
            fits = (term.lstrip("!") in labels) != term.startswith("!")
        if not fits:
            return False
    return True


def page(found: list[Manifest], limit: int, cursor: str) -> tuple[list[Manifest], str]:
    """A page of the objects after the cursor, and the next cursor."""
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
    return [str(value) for value in values if value is not None]


def json_path(value: Any, path: str) -> list[Any]:
    """Returns the values at a JSONPath. Supports names, `[*]` and numeric indexes."""
    found = [value]
    for name, item in re.findall(r"\.([A-Za-z0-9_-]+)|\[(\*|\d+)\]", path.strip("{}")):
        if name:
            found = [one[name] for one in found if isinstance(one, dict) and name in one]
        elif item == "*":
            found = [inner for one in found if isinstance(one, list) for inner in one]
        else:
            found = [one[int(item)] for one in found if isinstance(one, list) and int(item) < len(one)]
    return found


def plural(kind: str) -> str:
    """Returns the resource name of a built-in kind."""
    lower = kind.lower()
    if lower == "endpoints":
        return lower
    if lower.endswith("y"):
        return lower[:-1] + "ies"
    return lower + ("es" if lower.endswith(("s", "x", "ch")) else "s")
