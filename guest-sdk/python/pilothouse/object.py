"""Objects of the cluster, as handles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from ._wit import objects as wit
from .key import ObjectKey

#: A manifest: what `kubectl get -o json` shows, as dicts and lists.
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Owner:
    """An owner reference with `controller: true`. The owner lives in the same namespace, or in none."""

    api_version: str
    kind: str
    name: str
    uid: str


class Object:
    """One state of one object, held by the host: immutable, so what you read never changes while you hold it.

    Reading a field copies that field and nothing else; `json` copies all of it into a dict that you may change. A handle closes
    when nothing refers to it any more, at the end of a `with` block, or at the end of the call at the latest: what is to
    outlive the call must be read before.
    """

    __slots__ = ("__weakref__", "_open_handle")

    def __init__(self, handle: wit.Object) -> None:
        self._open_handle: wit.Object | None = handle
        _open.add(self)

    @property
    def handle(self) -> wit.Object:
        """The contract's own handle."""
        if self._open_handle is None:
            raise ValueError("this object is closed: handles end with the call that opened them; read what you keep before")
        return self._open_handle

    @property
    def key(self) -> ObjectKey:
        """Its namespace and name."""
        key = self.handle.key()
        return ObjectKey(key.namespace, key.name)

    @property
    def namespace(self) -> str:
        """Its namespace, "" for a cluster-scoped object."""
        return self.handle.key().namespace

    @property
    def name(self) -> str:
        """Its name."""
        return self.handle.key().name

    @property
    def api_version(self) -> str:
        """As in a manifest: `apps/v1`."""
        return self.handle.api_version()

    @property
    def kind(self) -> str:
        """As in a manifest: `Deployment`."""
        return self.handle.kind()

    @property
    def uid(self) -> str:
        """`metadata.uid`; "" for an object that has none."""
        return self.handle.uid()

    @property
    def resource_version(self) -> str:
        """`metadata.resourceVersion`: opaque."""
        return self.handle.resource_version()

    @property
    def generation(self) -> int:
        """`metadata.generation`; 0 for an object that has none."""
        return self.handle.generation()

    @property
    def labels(self) -> dict[str, str]:
        """All labels."""
        return {pair.key: pair.value for pair in self.handle.labels()}

    def label(self, key: str) -> str | None:
        """One label: cheaper than `labels`."""
        return self.handle.label(key)

    def annotation(self, key: str) -> str | None:
        """One annotation."""
        return self.handle.annotation(key)

    @property
    def deletion_timestamp(self) -> str | None:
        """When deletion was asked for (RFC 3339), while finalizers hold the object."""
        return self.handle.deletion_timestamp()

    @property
    def is_being_deleted(self) -> bool:
        """Deletion was asked for, and finalizers hold the object."""
        return self.handle.deletion_timestamp() is not None

    @property
    def controller(self) -> Owner | None:
        """The owner that controls it."""
        owner = self.handle.controller()
        return None if owner is None else Owner(owner.api_version, owner.kind, owner.name, owner.uid)

    def field(self, pointer: str, default: Any = None) -> Any:
        """The value at an RFC 6901 pointer (`/spec/replicas`) as Python has it; `default` when nothing is there."""
        text = self.handle.field(pointer)
        return default if text is None else json.loads(text)

    def text(self, pointer: str) -> str | None:
        """The text at a pointer: a string without quotes, any other value as JSON; None when nothing is there."""
        return self.handle.text(pointer)

    def fields(self, *pointers: str) -> list[Any]:
        """`field` at several pointers (at most 64), in one call in place of many; None where nothing is."""
        return [None if text is None else json.loads(text) for text in self.handle.fields(list(pointers))]

    def texts(self, *pointers: str) -> list[str | None]:
        """`text` at several pointers (at most 64), in one call in place of many."""
        return self.handle.texts(list(pointers))

    def raw(self, pointer: str = "") -> str | None:
        """The JSON text at a pointer, of the whole object at ""; None when nothing is there."""
        return self.handle.field(pointer) if pointer else self.handle.json()

    def json(self) -> Manifest:
        """The whole object as a dict of your own. Copies it all: prefer `field` for a few values."""
        manifest: Manifest = json.loads(self.handle.json())
        return manifest

    def close(self) -> None:
        """Gives the handle back to the host. Closing twice is fine."""
        _open.discard(self)
        handle, self._open_handle = self._open_handle, None
        if handle is not None:
            handle.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind} {self.key}"

    def __repr__(self) -> str:
        return "Object(closed)" if self._open_handle is None else f"Object({self} at {self.resource_version})"


#: Open handles. Weak, so that a long loop that drops its objects gives the handles back as it goes.
_open: WeakSet[Object] = WeakSet()


def close_all() -> None:
    """Closes what a call has left open: in a module's variable, or in a cycle that the garbage collector has not seen yet."""
    for opened in list(_open):
        opened.close()


def opened(handle: wit.Object | None) -> Object | None:
    """An object for a handle that may not be there."""
    return None if handle is None else Object(handle)


def manifest_of(thing: Object | Mapping[str, Any]) -> Mapping[str, Any]:
    """An object or a manifest as a manifest."""
    return thing.json() if isinstance(thing, Object) else thing


def metadata_of(thing: Object | Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of an object or a manifest."""
    metadata = thing.field("/metadata") if isinstance(thing, Object) else thing.get("metadata")
    return metadata or {}


def type_of(thing: Object | Mapping[str, Any]) -> tuple[str, str]:
    """`apiVersion` and `kind` of an object or a manifest."""
    if isinstance(thing, Object):
        return thing.api_version, thing.kind
    return thing.get("apiVersion") or "", thing.get("kind") or ""


def key_of(thing: Object | Mapping[str, Any]) -> ObjectKey:
    """The key of an object or a manifest."""
    return thing.key if isinstance(thing, Object) else ObjectKey.of(thing)
