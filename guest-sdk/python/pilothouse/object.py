"""Kubernetes objects, as handles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from ._wit import objects as wit
from .key import ObjectKey

#: A manifest: the output of `kubectl get -o json`, as dicts and lists.
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Owner:
    """An owner reference with `controller: true`. The owner is in the same namespace, or cluster-scoped."""

    api_version: str
    kind: str
    name: str
    uid: str


class Object:
    """A handle to one immutable state of an object that the host holds: what you read never changes while you hold the handle.

    Reading a field copies only that field; `json` copies the whole object into a dict that you may change. A handle is closed when
    nothing refers to it any more, at the end of a `with` block, and at the latest at the end of the call. Read values that you need
    after the call before it ends.
    """

    __slots__ = ("__weakref__", "_open_handle")

    def __init__(self, handle: wit.Object) -> None:
        self._open_handle: wit.Object | None = handle
        _open.add(self)

    @property
    def handle(self) -> wit.Object:
        """The contract's own handle."""
        if self._open_handle is None:
            raise ValueError("this object is closed: a handle is valid until the end of the call that opened it; read what you need before")
        return self._open_handle

    @property
    def key(self) -> ObjectKey:
        """The object's namespace and name."""
        key = self.handle.key()
        return ObjectKey(key.namespace, key.name)

    @property
    def namespace(self) -> str:
        """The object's namespace; "" for a cluster-scoped object."""
        return self.handle.key().namespace

    @property
    def name(self) -> str:
        """The object's name."""
        return self.handle.key().name

    @property
    def api_version(self) -> str:
        """The API version, spelled as in a manifest: `apps/v1`."""
        return self.handle.api_version()

    @property
    def kind(self) -> str:
        """The kind, spelled as in a manifest: `Deployment`."""
        return self.handle.kind()

    @property
    def uid(self) -> str:
        """`metadata.uid`; "" when it is missing."""
        return self.handle.uid()

    @property
    def resource_version(self) -> str:
        """`metadata.resourceVersion`, an opaque string."""
        return self.handle.resource_version()

    @property
    def generation(self) -> int:
        """`metadata.generation`; 0 when it is missing."""
        return self.handle.generation()

    @property
    def labels(self) -> dict[str, str]:
        """All labels."""
        return {pair.key: pair.value for pair in self.handle.labels()}

    def label(self, key: str) -> str | None:
        """Returns the value of one label. Cheaper than `labels`."""
        return self.handle.label(key)

    def annotation(self, key: str) -> str | None:
        """Returns the value of one annotation."""
        return self.handle.annotation(key)

    @property
    def deletion_timestamp(self) -> str | None:
        """When deletion was requested (RFC 3339), while finalizers keep the object."""
        return self.handle.deletion_timestamp()

    @property
    def is_being_deleted(self) -> bool:
        """Whether deletion was requested while finalizers keep the object."""
        return self.handle.deletion_timestamp() is not None

    @property
    def controller(self) -> Owner | None:
        """The owner that controls the object."""
        owner = self.handle.controller()
        return None if owner is None else Owner(owner.api_version, owner.kind, owner.name, owner.uid)

    def field(self, pointer: str, default: Any = None) -> Any:
        """Returns the value at a JSON pointer (RFC 6901), such as `/spec/replicas`, as a Python object; `default` when nothing is there."""
        text = self.handle.field(pointer)
        return default if text is None else json.loads(text)

    def text(self, pointer: str) -> str | None:
        """Returns the value at a JSON pointer as text: a string without quotes, any other value as JSON; None when nothing is there."""
        return self.handle.text(pointer)

    def fields(self, *pointers: str) -> list[Any]:
        """Returns the values at several JSON pointers (at most 64) in one call; None where nothing is. See `field`."""
        return [None if text is None else json.loads(text) for text in self.handle.fields(list(pointers))]

    def texts(self, *pointers: str) -> list[str | None]:
        """Returns the texts at several JSON pointers (at most 64) in one call. See `text`."""
        return self.handle.texts(list(pointers))

    def raw(self, pointer: str = "") -> str | None:
        """Returns the JSON text of the value at a JSON pointer ("" for the whole object); None when nothing is there."""
        return self.handle.field(pointer) if pointer else self.handle.json()

    def json(self) -> Manifest:
        """Returns a copy of the whole object as a dict. To read a few values, prefer `field`."""
        manifest: Manifest = json.loads(self.handle.json())
        return manifest

    def close(self) -> None:
        """Closes the handle. Closing it again does nothing."""
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


#: The open handles, as weak references, so that a long loop that drops its objects closes their handles as it goes.
_open: WeakSet[Object] = WeakSet()


def close_all() -> None:
    """Closes the handles that a call left open, in a module's variable or in a reference cycle that was not collected yet."""
    for opened in list(_open):
        opened.close()


def opened(handle: wit.Object | None) -> Object | None:
    """Returns the object of a handle, or None without a handle."""
    return None if handle is None else Object(handle)


def manifest_of(thing: Object | Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the manifest of an object or a manifest."""
    return thing.json() if isinstance(thing, Object) else thing


def metadata_of(thing: Object | Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the metadata of an object or a manifest."""
    metadata = thing.field("/metadata") if isinstance(thing, Object) else thing.get("metadata")
    return metadata or {}


def type_of(thing: Object | Mapping[str, Any]) -> tuple[str, str]:
    """Returns `apiVersion` and `kind` of an object or a manifest."""
    if isinstance(thing, Object):
        return thing.api_version, thing.kind
    return thing.get("apiVersion") or "", thing.get("kind") or ""


def key_of(thing: Object | Mapping[str, Any]) -> ObjectKey:
    """Returns the key of an object or a manifest."""
    return thing.key if isinstance(thing, Object) else ObjectKey.of(thing)
