"""Requests to the API server.

Each function sends one request and waits for the answer. The request must be covered by what the plugin declares with `writes` and by
the operator's grant. No function retries: leave the exception uncaught, and the host retries with backoff.

Arguments are manifests, that is, dicts with `apiVersion` and `kind`; results are `Object`s. What the plugin writes is visible in its
reads of the watches immediately.
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
    #: The object was already as desired; no request was sent.
    UNCHANGED = "unchanged"


def get(api_version: str, kind: str, key: tuple[str, str], *, subresource: str = "") -> Object:
    """Returns the current object from the server. Reads of a watch send no request."""
    return Object(_send(wit.get, types.ObjectType(api_version, kind), wit_key(key), subresource))


def list(
    api_version: str, kind: str, *, namespace: str = "", labels: str = "", fields: str = "", page_size: int = 0
) -> Iterator[Object]:
    """Yields all current objects from the server, reading page by page. The selectors are in kubectl's syntax."""
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
    """Returns one page of at most `limit` objects, never more than 500. An expired cursor raises `OtherApiError` with code 410: start
    again without a cursor."""
    options = wit.ListOptions(namespace, labels, fields, limit, cursor)
    answer = _send(wit.list, types.ObjectType(api_version, kind), options)
    return Page([Object(item) for item in answer.items], answer.next or None)


def create(manifest: Mapping[str, Any], *, subresource: str = "") -> Object:
    """Creates an object and returns it as stored. With a subresource ("eviction", "token"), posts the manifest to it."""
    return Object(_send(wit.create, _json(manifest), subresource))


def update(manifest: Mapping[str, Any], *, subresource: str = "") -> Object:
    """Replaces an object with a changed copy of what was read, and returns it as stored. Its `resourceVersion` protects concurrent
    changes."""
    return Object(_send(wit.update, _json(manifest), subresource))


def update_status(manifest: Mapping[str, Any]) -> Object:
    """Like `update`, but replaces only the status; the server ignores the rest of the manifest."""
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
    """Patches an object and returns it as stored. `form` selects JSON Merge Patch (RFC 7386), JSON Patch (RFC 6902), or the strategic
    merge patch of built-in kinds."""
    forms = {"merge": wit.PatchType_Merge, "json": wit.PatchType_Json, "strategic": wit.PatchType_Strategic}
    if form not in forms:
        raise ValueError(f"form={form!r}: a patch is one of {', '.join(forms)}; server-side apply is `apply`")
    return Object(
        _send(wit.patch, types.ObjectType(api_version, kind), wit_key(key), forms[form](), _json(body), subresource)
    )


def apply(
    manifest: Mapping[str, Any], *, force: bool = False, field_manager: str = "", subresource: str = ""
) -> Object:
    """Applies an object server-side and returns it as stored: the plugin owns the fields that are set, and gives up those that it
    leaves out. Creates the object when it does not exist.

    A field that another manager owns raises `Conflict`; `force` takes it over, which Kubernetes recommends for controllers.
    `field_manager` defaults to the plugin's name; another value must be that name, a slash and a suffix.
    """
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _NOT_APPLIED}
    body = _json({**manifest, "metadata": metadata})
    patch_type = wit.PatchType_Apply(wit.ApplyOptions(field_manager, force))
    target = types.ObjectType(*type_of(manifest))
    return Object(_send(wit.patch, target, wit_key(key_of(manifest)), patch_type, body, subresource))


#: A version would be a precondition, and the server rejects managed fields in an apply.
_NOT_APPLIED = ("managedFields", "resourceVersion")


def apply_status(manifest: Mapping[str, Any], *, force: bool = False, field_manager: str = "") -> Object:
    """Like `apply`, but applies only the status."""
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
    """Requests an object's deletion; finalizers may keep it in existence afterwards. `propagation` says whether its dependents are
    deleted after it, before it, or not at all.

    `uid` and `resource_version` are preconditions: if the object has others, this raises `Conflict` and deletes nothing.
    """
    options = wit.DeleteOptions(wit.Propagation[propagation.upper()], uid, resource_version)
    _send(wit.delete, types.ObjectType(api_version, kind), wit_key(key), options)


def create_or_update(
    present: Object | Mapping[str, Any] | None,
    absent: Callable[[], Manifest],
    mutate: Callable[[Manifest], object],
) -> tuple[Manifest, Change]:
    """Creates or updates an object, as controller-runtime's `CreateOrUpdate` does, and returns it as stored.

    `present` is the object that the watch holds; when it is None, the object is created from `absent()`. `mutate` then brings the
    object to its desired state. Nothing is sent when `mutate` changes nothing in a present object.
    """
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
    """Repeats `attempt` while it raises `Conflict`, up to five attempts in total. Each attempt must read the object again with `get`,
    because the watch may still hold the state that conflicted.

    When a reconcile changes a single object, leaving the conflict uncaught serves as well: the host runs the reconcile again.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except Conflict:
            continue
    return attempt()


#: The number of attempts of client-go's `retry.DefaultRetry`.
_ATTEMPTS = 5


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _send(function: Callable[..., Any], *arguments: object) -> Any:
    try:
        return function(*arguments)
    except Err as error:
        raise from_wit(error.value) from None
