"""Requests to the API server. Each is one round trip, must be covered by what the plugin declares with `writes` and by the
operator's grant, and is not repeated by itself: leave its exception uncaught, and the host tries again with backoff.

Objects are written as manifests, dicts with `apiVersion` and `kind`, and come back as `Object`. What this plugin writes is in
its own reads of the watches at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, TypeVar

from ._wit import Err, types
from ._wit import client as wit
from ._wit import key as wit_key
from .cache import Page
from .errors import Conflict, from_wit
from .object import Manifest, Object, key_of, manifest_of, type_of

T = TypeVar("T")


class Change(StrEnum):
    """What `create_or_update` did."""

    CREATED = "created"
    UPDATED = "updated"
    #: It was there as wanted: no request was made.
    UNCHANGED = "unchanged"


def get(api_version: str, kind: str, key: tuple[str, str], *, subresource: str = "") -> Object:
    """The object as the server has it now. The watches are free by comparison."""
    return Object(_send(wit.get, types.ObjectType(api_version, kind), wit_key(key), subresource))


def list(
    api_version: str, kind: str, *, namespace: str = "", labels: str = "", fields: str = "", page_size: int = 0
) -> Iterator[Object]:
    """All objects as the server has them now, page by page behind the scenes. The selectors are in kubectl's syntax."""
    cursor: str | None = ""
    while cursor is not None:
        found = page(
            api_version, kind, namespace=namespace, labels=labels, fields=fields, limit=page_size, cursor=cursor
        )
        cursor = found.next
        yield from found.items


def page(
    api_version: str,
    kind: str,
    *,
    namespace: str = "",
    labels: str = "",
    fields: str = "",
    limit: int = 0,
    cursor: str = "",
) -> Page:
    """One page of at most `limit` objects, and never more than 500. An expired cursor is `OtherApiError` with code 410: begin again."""
    options = wit.ListOptions(namespace, labels, fields, limit, cursor)
    answer = _send(wit.list, types.ObjectType(api_version, kind), options)
    return Page([Object(item) for item in answer.items], answer.next or None)


def create(manifest: Mapping[str, Any], *, subresource: str = "") -> Object:
    """Creates an object and returns it as stored. With a subresource, posts to it ("eviction", "token")."""
    return Object(_send(wit.create, _json(manifest), subresource))


def update(manifest: Mapping[str, Any], *, subresource: str = "") -> Object:
    """Replaces an object by a changed copy of what was read. Its `resourceVersion` guards against changes in between."""
    return Object(_send(wit.update, _json(manifest), subresource))


def update_status(manifest: Mapping[str, Any]) -> Object:
    """As `update`, of the status alone; everything else in the manifest is ignored."""
    return update(manifest, subresource="status")


def patch(
    api_version: str,
    kind: str,
    key: tuple[str, str],
    body: Any,
    *,
    form: Literal["merge", "json", "strategic"] = "merge",
    subresource: str = "",
) -> Object:
    """Changes an object: by JSON Merge Patch (RFC 7386), JSON Patch (RFC 6902), or the strategic merge of the built-in kinds."""
    forms = {"merge": wit.PatchType_Merge, "json": wit.PatchType_Json, "strategic": wit.PatchType_Strategic}
    if form not in forms:
        raise ValueError(f"form={form!r}: a patch is one of {', '.join(forms)}; server-side apply is `apply`")
    return Object(
        _send(wit.patch, types.ObjectType(api_version, kind), wit_key(key), forms[form](), _json(body), subresource)
    )


def apply(
    manifest: Mapping[str, Any], *, force: bool = False, field_manager: str = "", subresource: str = ""
) -> Object:
    """Server-side apply: states what this plugin wants of an object, and creates it where it is absent. Fields that are left
    out are not this plugin's.

    A field that another manager owns is a `Conflict`; `force` takes it over, which is what Kubernetes recommends to controllers.
    A `field_manager` must be the plugin's own name, or that and a slash and more.
    """
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _NOT_APPLIED}
    body = _json({**manifest, "metadata": metadata})
    how = wit.PatchType_Apply(wit.ApplyOptions(field_manager, force))
    target = types.ObjectType(*type_of(manifest))
    return Object(_send(wit.patch, target, wit_key(key_of(manifest)), how, body, subresource))


#: A version would be a precondition, and the server refuses managed fields in an apply.
_NOT_APPLIED = ("managedFields", "resourceVersion")


def apply_status(manifest: Mapping[str, Any], *, force: bool = False, field_manager: str = "") -> Object:
    """As `apply`, of the status alone."""
    return apply(manifest, force=force, field_manager=field_manager, subresource="status")


def delete(
    api_version: str,
    kind: str,
    key: tuple[str, str],
    *,
    propagation: Literal["background", "foreground", "orphan"] = "background",
    uid: str = "",
    resource_version: str = "",
) -> None:
    """Asks for an object's deletion; finalizers may hold it afterwards. What it owns is deleted afterwards, before it, or not.

    With a UID or a version, an object that has another is a `Conflict` and stays.
    """
    options = wit.DeleteOptions(wit.Propagation[propagation.upper()], uid, resource_version)
    _send(wit.delete, types.ObjectType(api_version, kind), wit_key(key), options)


def create_or_update(
    present: Object | Mapping[str, Any] | None,
    absent: Callable[[], Manifest],
    mutate: Callable[[Manifest], object],
) -> tuple[Manifest, Change]:
    """Makes an object as `mutate` wants it: `present` is what the watch has; where it has nothing, `absent()` (a name and a
    namespace, mostly) is the start. Nothing is sent when `mutate` changes nothing."""
    if present is None:
        manifest = absent()
        mutate(manifest)
        return create(manifest).json(), Change.CREATED
    before = manifest_of(present)
    manifest = json.loads(_json(before))
    mutate(manifest)
    if manifest == before:
        return manifest, Change.UNCHANGED
    return update(manifest).json(), Change.UPDATED


def retry_on_conflict(attempt: Callable[[], T]) -> T:
    """Repeats `attempt` while it raises `Conflict`, at most five times in all. Each attempt must read the object anew (with `get`:
    the watch may be as old as the state that just conflicted).

    Leaving the conflict uncaught is as good where one object is changed: the host runs the reconcile again.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except Conflict:
            continue
    return attempt()


#: As many attempts as client-go's `retry.DefaultRetry` makes.
_ATTEMPTS = 5


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _send(function: Callable[..., Any], *arguments: object) -> Any:
    try:
        return function(*arguments)
    except Err as error:
        raise from_wit(error.value) from None
