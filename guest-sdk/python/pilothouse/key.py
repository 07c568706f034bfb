"""Names of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ObjectKey(NamedTuple):
    """The namespace ("" for a cluster-scoped object) and name of an object. A tuple of both does wherever a key is asked for."""

    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> ObjectKey:
        """The key of a manifest; its name is empty when it has none yet (`generateName`)."""
        metadata = manifest.get("metadata") or {}
        return cls(metadata.get("namespace") or "", metadata.get("name") or "")

    @classmethod
    def parse(cls, text: str) -> ObjectKey:
        """The key that `namespace/name`, or `name`, is the text of."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)

    def sibling(self, name: str) -> ObjectKey:
        """Another name in the same namespace."""
        return ObjectKey(self.namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


