"""Keys of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ObjectKey(NamedTuple):
    """The namespace ("" for a cluster-scoped object) and name of an object. Functions that take a key accept a plain tuple too."""

    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> ObjectKey:
        """Returns the key of a manifest. The name is empty when the manifest has none yet (`generateName`)."""
        metadata = manifest.get("metadata") or {}
        return cls(metadata.get("namespace") or "", metadata.get("name") or "")

    @classmethod
    def parse(cls, text: str) -> ObjectKey:
        """Parses `namespace/name`, or `name` for a cluster-scoped object."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)

    def sibling(self, name: str) -> ObjectKey:
        """Returns the key of another name in the same namespace."""
        return ObjectKey(self.namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


