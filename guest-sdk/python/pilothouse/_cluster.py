"""The fake API server of `pilothouse.testing`.

`guest-sdk/testing/cases.json` specifies it. It follows kube-apiserver, without schemas, defaults, admission and the garbage collector.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from . import _patches, _select, _standin
from ._kinds import Kind, kind_of
from ._duration import milliseconds
from ._patches import ABSENT
from ._standin import client, types
from .errors import AlreadyExists, ApiError, Conflict, Denied, Forbidden, Invalid, NotFound, OtherApiError, TooManyRequests, Unavailable
from .key import ObjectKey
from .object import Manifest

#: The time of every creation and deletion.
NOW = "2026-01-01T00:00:00Z"

Slot = tuple[str, str, ObjectKey]


def not_found(message: str) -> _standin.Err[Any]:
    return _standin.Err(types.ApiError_NotFound(message))


def conflict(message: str, version: str) -> _standin.Err[Any]:
    return _standin.Err(types.ApiError_Conflict(types.ConflictInfo(message, version)))


def invalid(field: str, message: str, reason: str = "FieldValueInvalid") -> _standin.Err[Any]:
    return _standin.Err(types.ApiError_Invalid([types.Cause(field, reason, message)]))


def other(code: int, reason: str, message: str) -> _standin.Err[Any]:
    return _standin.Err(types.ApiError_Other(types.HttpStatus(code, reason, message)))


def to_wit(error: ApiError) -> types.ApiError:
    """Converts an exception to an error of the contract."""
    match error:
        case Conflict():
            return types.ApiError_Conflict(types.ConflictInfo(str(error), error.resource_version or ""))
        case Invalid():
            return types.ApiError_Invalid([types.Cause(cause.field, cause.reason, cause.message) for cause in error.causes])
        case Denied():
            rule = error.rule
            return types.ApiError_Denied(types.Rule(rule.api_groups, rule.resources, rule.verbs, rule.namespaces))
        case TooManyRequests():
            return types.ApiError_TooManyRequests(milliseconds(error.retry_after))
        case OtherApiError():
            return types.ApiError_Other(types.HttpStatus(error.code, error.reason, error.message))
    plain = {
        NotFound: types.ApiError_NotFound,
        AlreadyExists: types.ApiError_AlreadyExists,
        Forbidden: types.ApiError_Forbidden,
        Unavailable: types.ApiError_Unavailable,
    }
    return plain[type(error)](str(error))


class Cluster:
    """The objects of a fake API server, and who owns their fields."""

    def __init__(self) -> None:
        self.crds: list[dict[str, Any]] = []
        self._objects: dict[Slot, Manifest] = {}
        #: By JSON pointer, the field managers of each value: "NAME apply" for applies and "NAME" for other writes.
        self._owners: dict[Slot, dict[str, set[str]]] = {}
        self._version = 0

    def kind(self, api_version: str, kind: str) -> Kind:
        return kind_of(self.crds, api_version, kind)

    def find(self, api_version: str, kind: str, key: ObjectKey) -> Manifest | None:
        return self._objects.get((api_version, kind, key))

    def require(self, api_version: str, kind: str, key: ObjectKey, subresource: str = "") -> Manifest:
        found = self.find(api_version, kind, key)
        of = self.kind(api_version, kind)
        if found is None or (subresource == "status" and not of.has_status):
            resource = f"{of.plural}.{of.group}" if of.group else of.plural
            raise not_found(f'{resource} "{key.name}" not found')
        return found

    def select(self, api_version: str, kind: str, namespace: str = "", labels: str = "", fields: str = "") -> list[Manifest]:
        of_kind = [one for slot, one in self._objects.items() if slot[:2] == (api_version, kind)]
        return _select.narrowed(sorted(of_kind, key=ObjectKey.of), namespace, labels, fields)

    def put(self, manifest: Manifest) -> Manifest:
        """Stores an object as another client's write. Keeps what the test gives, and adds the metadata that it leaves out."""
        slot = slot_of(manifest)
        present = self._objects.get(slot)
        metadata = manifest.setdefault("metadata", {})
        before = present["metadata"] if present else {}
        metadata.setdefault("uid", before.get("uid") or f"uid-{self._version + 1}")
        metadata.setdefault("creationTimestamp", before.get("creationTimestamp", NOW))
        kind = self.kind(*slot[:2])
        if kind.has_generation:
            if present and metadata["uid"] == before.get("uid"):
                metadata["generation"] = _generation(kind, present, manifest)
            else:
                metadata.setdefault("generation", 1)
        if present and before.get("deletionTimestamp") and is_deleted(manifest):
            return self._remove(slot, manifest)
        return self._store(slot, manifest, "another client")

    def create(self, manifest: Manifest, manager: str) -> Manifest:
        metadata = manifest.setdefault("metadata", {})
        kind = self.kind(*slot_of(manifest)[:2])
        if metadata.get("resourceVersion"):
            raise other(500, "", "resourceVersion should not be set on objects to be created")
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise invalid("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
            metadata["name"] = f"{metadata['generateName']}{self._version + 1:05}"
        check_new_name(kind, metadata["name"])
        slot = slot_of(manifest)
        if slot in self._objects:
            raise _standin.Err(types.ApiError_AlreadyExists(f'{kind.plural} "{metadata["name"]}" already exists'))
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(field, None)
        metadata.update({"uid": f"uid-{self._version + 1}", "creationTimestamp": NOW})
        if kind.has_generation:
            metadata["generation"] = 1
        if kind.has_status:
            manifest.pop("status", None)
        return self._store(slot, manifest, manager)

    def update(self, manifest: Manifest, subresource: str, manager: str) -> Manifest:
        slot = slot_of(manifest)
        kind = self.kind(*slot[:2])
        present = self.require(*slot, subresource)
        if not manifest["metadata"].get("resourceVersion") and kind.needs_version:
            raise invalid("metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update")
        return self._replace(slot, kind, present, manifest, subresource, manager)

    def patch(self, named: Manifest, patch_type: Any, body: Any, subresource: str, manager: str) -> Manifest:
        slot = slot_of(named)
        kind = self.kind(*slot[:2])
        present = self.require(*slot, subresource)
        if isinstance(patch_type, client.PatchType_Strategic):
            raise NotImplementedError("pilothouse.testing does not support strategic patches: use form=\"merge\", or test with `pilothouse dev`")
        if isinstance(patch_type, client.PatchType_Json):
            try:
                result = _patches.patched(present, body)
            except _patches.Malformed as error:
                raise other(400, "BadRequest", str(error)) from None
            except _patches.Failed as error:
                raise invalid("", str(error), "Invalid") from None
        else:
            result = _patches.merged(copy.deepcopy(present), body)
        if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict) or slot_of(result) != slot:
            raise other(400, "BadRequest", "a patch cannot change the type, the namespace or the name of an object")
        return self._replace(slot, kind, present, result, subresource, manager)

    def apply(self, named: Manifest, config: Manifest, subresource: str, manager: str, *, force: bool) -> Manifest:
        slot = slot_of(named)
        kind = self.kind(*slot[:2])
        config = copy.deepcopy(config)
        config["metadata"] = {**(config.get("metadata") or {}), **named["metadata"]}
        if slot_of(config) != slot:
            raise other(400, "BadRequest", "the applied manifest has another type, namespace or name")
        present = None if slot not in self._objects and not subresource else self.require(*slot, subresource)
        wanted = _tracked(config, kind, subresource)
        if present is None:
            self.create(copy.deepcopy(config), manager)
            self._owners[slot] = {pointer: {manager} for pointer in wanted}
            return self._objects[slot]
        owners = self._owners[slot]
        changed = [pointer for pointer, value in wanted.items() if not same(_patches.at(present, pointer), value)]
        contested = [pointer for pointer in changed if owners.get(pointer, set()) - {manager}]
        if contested and not force:
            theirs = sorted(set().union(*(owners[pointer] for pointer in contested)) - {manager})
            message = f"Apply failed with {len(contested)} conflicts with {', '.join(theirs)}: {', '.join(contested)}"
            raise conflict(message, present["metadata"]["resourceVersion"])
        result = copy.deepcopy(present)
        kept = {pointer: set(managers) for pointer, managers in owners.items()}
        for pointer in [pointer for pointer in owners if manager in owners[pointer] and pointer not in wanted]:
            if kind.has_status and _is_status(pointer) != (subresource == "status"):
                continue
            kept[pointer].discard(manager)
            if not kept[pointer]:
                del kept[pointer]
                _patches.drop(result, pointer)
        for pointer in changed:
            _patches.put(result, pointer, copy.deepcopy(wanted[pointer]))
        stored = self._replace(slot, kind, present, result, subresource, manager)
        if slot in self._objects:
            for pointer in wanted:
                kept[pointer] = {manager} if pointer in changed else kept.get(pointer, set()) | {manager}
            self._owners[slot] = kept
        return stored

    def delete(self, api_version: str, kind: str, key: ObjectKey, uid: str = "", version: str = "") -> None:
        slot = (api_version, kind, key)
        present = self.require(*slot)
        metadata = present["metadata"]
        if (uid and uid != metadata["uid"]) or (version and version != metadata["resourceVersion"]):
            raise conflict("Precondition failed: the object has another UID or resource version", metadata["resourceVersion"])
        if not metadata.get("finalizers"):
            self._remove(slot, present)
        elif not metadata.get("deletionTimestamp"):
            marked = copy.deepcopy(present)
            marked["metadata"].update({"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0})
            if metadata.get("generation"):
                marked["metadata"]["generation"] += 1
            self._store(slot, marked, "another client")

    def _replace(
        self, slot: Slot, kind: Kind, present: Manifest, proposed: Manifest, subresource: str, manager: str
    ) -> Manifest:
        """Replaces an object, or its status, by what a client proposes."""
        before, after = present["metadata"], proposed["metadata"]
        current = before["resourceVersion"]
        if after.get("resourceVersion") and after["resourceVersion"] != current:
            message = "the object has been modified; please apply your changes to the latest version and try again"
            raise conflict(message, current)
        if after.get("uid") and after["uid"] != before["uid"]:
            raise conflict(f"Precondition failed: UID in precondition: {after['uid']}, UID in object meta: {before['uid']}", current)
        result = copy.deepcopy(present if subresource else proposed)
        added = set(after.get("finalizers") or []) - set(before.get("finalizers") or [])
        if before.get("deletionTimestamp") and added and not subresource:
            message = "Forbidden: no new finalizers can be added if the object is being deleted"
            raise invalid("metadata.finalizers", message, "FieldValueForbidden")
        if subresource or kind.has_status:
            _copy_member(proposed if subresource else present, result, "status")
        for field in _SERVER_FIELDS:
            _copy_member(before, result["metadata"], field)
        if not subresource and kind.has_generation:
            result["metadata"]["generation"] = _generation(kind, present, result)
        if same(result, present):
            return present
        if before.get("deletionTimestamp") and is_deleted(result):
            return self._remove(slot, result)
        return self._store(slot, result, manager)

    def _store(self, slot: Slot, manifest: Manifest, manager: str) -> Manifest:
        self._version += 1
        manifest["metadata"]["resourceVersion"] = str(self._version)
        present = self._objects.get(slot)
        before = {} if present is None else _all_tracked(present)
        owners = self._owners.get(slot, {})
        self._owners[slot] = {
            pointer: owners.get(pointer, set()) if same(before.get(pointer, ABSENT), value) else {manager}
            for pointer, value in _all_tracked(manifest).items()
        }
        self._objects[slot] = manifest
        return manifest

    def _remove(self, slot: Slot, manifest: Manifest) -> Manifest:
        self._version += 1
        self._objects.pop(slot)
        self._owners.pop(slot)
        return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self._version)}}


#: The metadata that a client may leave out of an update, and cannot change.
_SERVER_FIELDS = (
    "uid creationTimestamp generation resourceVersion generateName deletionTimestamp deletionGracePeriodSeconds"
).split()

#: The metadata that has no field manager.
_UNTRACKED = {f"/metadata/{field}" for field in ["name", "namespace", "managedFields", *_SERVER_FIELDS]}


def slot_of(manifest: Manifest) -> Slot:
    return str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or ""), ObjectKey.of(manifest)


def same(one: Any, other: Any) -> bool:
    """Compares JSON. For Python, True equals 1."""
    if one is ABSENT or other is ABSENT:
        return one is other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def is_deleted(manifest: Manifest) -> bool:
    """Returns whether nothing delays the removal of an object that is being deleted."""
    metadata = manifest["metadata"]
    return not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")


def check_new_name(kind: Kind, name: str) -> None:
    if kind.group != "rbac.authorization.k8s.io" and not _SUBDOMAIN.fullmatch(name):
        raise invalid("metadata.name", f"Invalid value: {name!r}: a lowercase RFC 1123 subdomain consists of lower case letters, digits, '-' and '.'")


_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _generation(kind: Kind, before: Manifest, after: Manifest) -> int:
    """Returns the generation, which counts the changes of everything but the metadata and the status."""
    ignored = {"metadata", "status"} if kind.has_status else {"metadata"}
    changed = any(
        not same(before.get(member, ABSENT), after.get(member, ABSENT)) for member in {*before, *after} - ignored
    )
    return int(before["metadata"].get("generation") or 0) + changed


def _copy_member(source: dict[str, Any], target: dict[str, Any], name: str) -> None:
    if name in source:
        target[name] = copy.deepcopy(source[name])
    else:
        target.pop(name, None)


def _is_status(pointer: str) -> bool:
    return pointer == "/status" or pointer.startswith("/status/")


def _all_tracked(manifest: Manifest) -> dict[str, Any]:
    """Returns the values that have field managers, by pointer."""
    return {
        pointer: value
        for pointer, value in _patches.leaves(manifest).items()
        if pointer not in ("/apiVersion", "/kind", "/metadata") and pointer not in _UNTRACKED
    }


def _tracked(config: Manifest, kind: Kind, subresource: str) -> dict[str, Any]:
    """Returns the values that an apply sets: the status, or everything else."""
    return {
        pointer: value
        for pointer, value in _all_tracked(config).items()
        if not kind.has_status or _is_status(pointer) == (subresource == "status")
    }
