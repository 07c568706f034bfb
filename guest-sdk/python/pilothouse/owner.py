"""Owner references, by which the garbage collector deletes an object after its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import Retry
from .object import Manifest, Object, key_of, metadata_of, type_of


class AlreadyControlled(Retry):
    """Another object already controls the object."""


def controller_owner_ref(owner: Object | Mapping[str, Any]) -> dict[str, Any]:
    """Returns a controlling reference to `owner`, for `metadata.ownerReferences` of an object that the owner creates. The garbage
    collector deletes the object after its owner; with foreground deletion the owner waits for the object."""
    api_version, kind = type_of(owner)
    metadata = metadata_of(owner)
    name, uid = metadata.get("name"), metadata.get("uid")
    if not (api_version and kind and name and uid):
        raise ValueError(f"{kind or 'an object'} without kind, name and UID cannot own anything: was it read from the server?")
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(thing: Object | Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the reference to the object's controlling owner."""
    references: list[dict[str, Any]] = metadata_of(thing).get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)


def is_controlled_by(thing: Object | Mapping[str, Any], owner: Object | Mapping[str, Any]) -> bool:
    """Returns whether `owner` controls `thing`. Compares UIDs, because an owner that was deleted and recreated does not own the objects
    of its predecessor."""
    uid = metadata_of(owner).get("uid")
    controller = controller_of(thing)
    return bool(uid) and controller is not None and controller.get("uid") == uid


def set_controller(manifest: Manifest, owner: Object | Mapping[str, Any]) -> None:
    """Makes `owner` the controller of the object in `manifest`. A reference to the same owner is replaced
    if it differs."""
    reference = controller_owner_ref(owner)
    other = controller_of(manifest)
    if other is not None and other["uid"] != reference["uid"]:
        raise AlreadyControlled(f"{key_of(manifest)} is already controlled by {other['kind']} {other['name']}")
    metadata = manifest.setdefault("metadata", {})
    references = metadata.get("ownerReferences") or []
    uids = [one["uid"] for one in references]
    if reference["uid"] not in uids:
        metadata["ownerReferences"] = [*references, reference]
    else:
        references[uids.index(reference["uid"])] = reference
