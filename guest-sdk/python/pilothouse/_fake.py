"""The handles of `pilothouse.testing`, which read manifests as the host's handles read objects."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, Self

from ._patches import ABSENT, at
from ._standin import objects, types
from .key import ObjectKey
from .object import Manifest


class Object:
    """A handle of the contract that reads a manifest."""

    def __init__(self, manifest: Manifest) -> None:
        # A server writes the members in alphabetical order, whatever the order in which they were sent.
        self._manifest = json.loads(json.dumps(manifest, sort_keys=True))
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
        return None if found is ABSENT else json.dumps(found, ensure_ascii=False, separators=(",", ":"))

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
