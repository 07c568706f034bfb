"""A fake host for unit tests, which runs a plugin's functions against objects in memory.

    host = testing.Host(controller.plugin)
    host.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "web"}})
    host.reconcile("configmaps", ("default", "web"))
    assert host.get("v1", "ConfigMap", ("default", "web"))["metadata"]["labels"] == {"seen": "yes"}

Requests have the results that a Kubernetes API server would give: resource versions and conflicts, generations, finalizers, the status
subresource, JSON patches, merge patches and server-side apply, and the host's refusal of undeclared writes. The watches' selectors, projections
and indexes are evaluated, the plugin's own writes are visible at once, and `fail` makes requests fail.

It has no schemas, defaults, admission or garbage collector, no subresources but `status`, treats lists as one value in a server-side apply, and
changes queue no work. To test what depends on these, use `pilothouse dev`.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from . import _cluster, _fake, _guest, _kinds, _select, _standin
from ._standin import cache, client, objects, types
from .errors import ApiError, Retry, Terminal
from .key import ObjectKey
from .object import Manifest, Object
from .plugin import Outcome, Plugin
from .request import Reason


class Event(NamedTuple):
    """An Event that the plugin recorded."""

    #: The key of the object that the Event is about.
    key: ObjectKey
    #: "normal" or "warning".
    type: str
    reason: str
    action: str
    note: str


class Line(NamedTuple):
    """A line of the plugin's log."""

    level: str
    message: str
    fields: dict[str, str]


class Trap(BaseException):
    """A programming error at which the real host ends the instance, such as the name of an unknown watch. The plugin cannot catch it."""


@dataclass
class _Failure:
    error: ApiError
    verb: str
    kind: str
    times: int


@dataclass
class Host:
    """A fake host with a fake API server. Several hosts may be used one after another, but not concurrently."""

    plugin: Plugin
    config: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    log: list[Line] = field(default_factory=list)
    #: The arguments of each `queue.add`: watch, key and delay.
    queued: list[tuple[str, ObjectKey, timedelta | None]] = field(default_factory=list)
    #: The name, labels and value of each metrics call.
    metrics: list[tuple[str, dict[str, str], float]] = field(default_factory=list)
    #: The writes that succeeded: "create v1 ConfigMap default/web", "apply apps/v1 Deployment default/web status".
    writes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._cluster = _cluster.Cluster()
        self._failures: list[_Failure] = []
        self._guest = _guest.Guest(self.plugin)
        self.descriptor: dict[str, Any] = {}
        with _Active(self):
            self._guest.describe(json.dumps(self.config))
            self.descriptor = self.plugin.descriptor()
        self._cluster.crds = self.descriptor.get("crds", [])
        self._own: str = self.descriptor["name"]

    def add(self, manifest: Manifest) -> Manifest:
        """Adds an object to the cluster, or replaces the one with the same key, as another client would; returns it as stored.

        UID, status and finalizers are stored as given. A resource version in the manifest is ignored, so this never conflicts.
        """
        return copy.deepcopy(self._cluster.put(copy.deepcopy(manifest)))

    def get(self, api_version: str, kind: str, key: tuple[str, str]) -> Manifest | None:
        """Returns an object of the cluster, or None when it does not exist."""
        return copy.deepcopy(self._cluster.find(api_version, kind, ObjectKey(*key)))

    def remove(self, api_version: str, kind: str, key: tuple[str, str]) -> None:
        """Deletes an object as `kubectl delete` does: an object with finalizers only gets a deletion timestamp."""
        self._cluster.delete(api_version, kind, ObjectKey(*key))

    def fail(self, error: ApiError, *, verb: str = "", kind: str = "", times: int = 1) -> None:
        """Makes the next `times` requests fail that have this verb (get, list, create, update, patch or delete) and this kind; an empty
        verb or kind stands for all. A failed request changes nothing. A server-side apply has the verb `patch`."""
        self._failures.append(_Failure(error, verb, kind, times))

    def reconcile(
        self, watch: str, key: tuple[str, str], *, reasons: Iterable[Reason] = (Reason.UPDATED,), attempt: int = 0
    ) -> Outcome:
        """Runs the plugin's reconcile. Raises its failure as `Retry` or `Terminal`, with the text that the host would receive."""
        request = types.Request(
            watch, types.ObjectKey(*key), [types.Reason[reason.name] for reason in reasons], attempt, []
        )
        with _Active(self):
            try:
                outcome = self._guest.reconcile(request)
            except _standin.Err as error:
                raise _failed(error.value) from None
        return timedelta(milliseconds=outcome.value) if isinstance(outcome, types.Outcome_RequeueAfter) else None

    def observe(self, watch: str, *changes: tuple[Manifest | None, Manifest | None], initial: bool = False) -> None:
        """Delivers changes to the plugin's observer. Each is the object before (None for an addition) and after (None for a deletion)."""
        notifications = [_fake.notification(watch, before, after, initial) for before, after in changes]
        with _Active(self):
            try:
                self._guest.observe(notifications, _fake.Batch(list(changes)))
            except _standin.Err as error:
                raise _failed(error.value) from None

    def index_values(self, index: str, manifest: Manifest) -> list[str]:
        """Returns what the plugin's function computes for an index."""
        with _Active(self):
            return self._guest.values(index, _fake.Object(manifest))

    # The functions of the contract, called by `_standin`.

    def _declaration(self, watch: str) -> dict[str, Any]:
        if watch not in self.plugin.watches:
            raise Trap(f"unknown watch {watch!r}: the descriptor declares {', '.join(self.plugin.watches) or 'none'}")
        return self.plugin.watches[watch].declaration

    def _watched(self, watch: str, cache_filter: cache.Filter | None = None) -> list[Manifest]:
        declaration = self._declaration(watch)
        found = self._cluster.select(
            declaration["apiVersion"],
            declaration["kind"],
            labels=declaration.get("labelSelector", ""),
            fields=declaration.get("fieldSelector", ""),
        )
        namespaces = declaration.get("namespaces")
        found = [one for one in found if not namespaces or ObjectKey.of(one).namespace in namespaces]
        if declaration.get("projection") == "metadata":
            found = [{name: one[name] for name in ("apiVersion", "kind", "metadata")} for one in found]
        if cache_filter is None:
            return found
        try:
            return _select.narrowed(found, cache_filter.namespace, cache_filter.label_selector)
        except _select.InvalidSelector as error:
            raise Trap(str(error)) from None

    def cache_get(self, watch: str, key: types.ObjectKey) -> objects.Object | None:
        wanted = ObjectKey(key.namespace, key.name)
        return next((_fake.Object(one) for one in self._watched(watch) if ObjectKey.of(one) == wanted), None)

    def cache_list(self, watch: str, cache_filter: cache.Filter) -> cache.Page:
        limit = min(cache_filter.limit or _PAGE, _PAGE)
        found, cursor = _select.page(self._watched(watch, cache_filter), limit, cache_filter.cursor)
        return cache.Page([_fake.Object(one) for one in found], cursor)

    def cache_list_fields(self, watch: str, cache_filter: cache.Filter, pointers: list[str]) -> list[cache.Row]:
        found = self._watched(watch, cache_filter)
        found, _ = _select.page(found, cache_filter.limit or max(1, len(found)), cache_filter.cursor)
        rows = [_fake.Object(one) for one in found]
        return [cache.Row(one.key(), [one.field(pointer) for pointer in pointers]) for one in rows]

    def cache_by_index(self, watch: str, index: str, value: str) -> list[objects.Object]:
        self._index(watch, index)
        return [_fake.Object(one) for one in self._watched(watch) if value in self._values(watch, index, one)]

    def cache_index_keys(self, watch: str, index: str, value: str) -> list[types.ObjectKey]:
        return [found.key() for found in self.cache_by_index(watch, index, value)]

    def cache_index_values(self, watch: str, index: str) -> list[str]:
        self._index(watch, index)
        return sorted({value for one in self._watched(watch) for value in self._values(watch, index, one)})

    def cache_has_synced(self, watch: str) -> bool:
        return bool(self._declaration(watch))

    def _index(self, watch: str, index: str) -> dict[str, Any]:
        declared = {one["name"]: one for one in self._declaration(watch).get("indexes", [])}
        if index not in declared:
            raise Trap(f"unknown index {index!r} of watch {watch!r}: the descriptor declares {', '.join(declared) or 'none'}")
        return declared[index]

    def _values(self, watch: str, index: str, manifest: Manifest) -> list[str]:
        declared = self._index(watch, index)
        if declared.get("computed"):
            # Not through the export, because that closes all handles at its end.
            with Object(_fake.Object(manifest)) as handle:
                return list(self.plugin.index_function(index)(handle))
        return _select.index_values(declared, manifest)

    def client_get(self, target: types.ObjectType, key: types.ObjectKey, subresource: str) -> objects.Object:
        named = ObjectKey(key.namespace, key.name)
        self._begin("get", target.api_version, target.kind, named, subresource)
        return _fake.Object(self._cluster.require(target.api_version, target.kind, named, subresource))

    def client_list(self, target: types.ObjectType, options: client.ListOptions) -> client.Page:
        self._begin("list", target.api_version, target.kind, ObjectKey(options.namespace, ""))
        try:
            found = self._cluster.select(
                target.api_version, target.kind, options.namespace, options.label_selector, options.field_selector
            )
        except _select.InvalidSelector as error:
            raise _cluster.other(400, "BadRequest", str(error)) from None
        found, cursor = _select.page(found, min(options.limit or _PAGE, _PAGE), options.cursor)
        return client.Page([_fake.Object(one) for one in found], cursor)

    def client_create(self, text: str, subresource: str) -> objects.Object:
        manifest = json.loads(text)
        api_version, kind, key = self._begin("create", *_cluster.slot_of(manifest), subresource)
        if subresource:
            # An eviction or a token is an action, and not an object.
            self._cluster.require(*_kinds.parent_of(api_version, kind, subresource), key)
            stored = manifest
        else:
            stored = self._cluster.create(manifest, self._own)
        return self._written("create", stored, subresource)

    def client_update(self, text: str, subresource: str) -> objects.Object:
        manifest = json.loads(text)
        self._begin("update", *_cluster.slot_of(manifest), subresource)
        return self._written("update", self._cluster.update(manifest, subresource, self._own), subresource)

    def client_patch(
        self, target: types.ObjectType, key: types.ObjectKey, patch_type: Any, body: str, subresource: str
    ) -> objects.Object:
        metadata = {"namespace": key.namespace, "name": key.name} if key.namespace else {"name": key.name}
        named = {"apiVersion": target.api_version, "kind": target.kind, "metadata": metadata}
        self._begin("patch", *_cluster.slot_of(named), subresource)
        own = self._own
        if not isinstance(patch_type, client.PatchType_Apply):
            stored = self._cluster.patch(named, patch_type, json.loads(body), subresource, own)
            return self._written("patch", stored, subresource)
        manager = patch_type.value.field_manager or own
        if manager != own and not manager.startswith(f"{own}/"):
            raise _cluster.invalid("fieldManager", f"write {own!r}, {own}/ and a name of your own, or leave it out")
        stored = self._cluster.apply(
            named, json.loads(body), subresource, f"{manager} apply", force=patch_type.value.force
        )
        return self._written("apply", stored, subresource)

    def client_delete(self, target: types.ObjectType, key: types.ObjectKey, options: client.DeleteOptions) -> None:
        slot = self._begin("delete", target.api_version, target.kind, ObjectKey(key.namespace, key.name))
        self._cluster.delete(*slot, options.uid, options.resource_version)
        self._record("delete", *slot)

    def _begin(
        self, verb: str, api_version: str, kind: str, key: ObjectKey, subresource: str = ""
    ) -> tuple[str, str, ObjectKey]:
        """Checks a request as the host does before it sends it, and fails it if the test said so."""
        for name, value in (("apiVersion", api_version), ("kind", kind)):
            if not value:
                raise _cluster.invalid(name, "the manifest must set it")
        if problem := _namespace_problem(key.namespace):
            raise _cluster.invalid("metadata.namespace", problem)
        if key.name and (problem := _name_problem(key.name)):
            raise _cluster.invalid("metadata.name", problem)
        of = self._cluster.kind(*_kinds.parent_of(api_version, kind, subresource))
        self._allow(verb, of, key.namespace, subresource)
        if of.namespaced and not key.namespace and verb != "list":
            raise _cluster.invalid("metadata.namespace", f"it is empty, but {of.plural} are namespaced: name a namespace")
        if of.namespaced is False and key.namespace:
            raise _cluster.invalid("metadata.namespace", f"{of.plural} are cluster-scoped: leave the namespace out")
        if not key.name and verb != "list" and (verb != "create" or subresource):
            raise _cluster.invalid("metadata.name", "it is empty")
        if verb != "create" and subresource not in ("", "status"):
            raise NotImplementedError(f"pilothouse.testing has no subresource {subresource!r}: test it with `pilothouse dev`")
        for failure in self._failures:
            if failure.times > 0 and failure.verb in ("", verb) and failure.kind in ("", kind):
                failure.times -= 1
                raise _standin.Err(_cluster.to_wit(failure.error))
        return api_version, kind, key

    def _allow(self, verb: str, of: _kinds.Kind, namespace: str, subresource: str) -> None:
        resource = f"{of.plural}/{subresource}" if subresource else of.plural
        in_namespace = namespace if of.namespaced is not False else ""
        if not any(_covers(rule, of.group, resource, verb, in_namespace) for rule in self.descriptor.get("writes", [])):
            missing = types.Rule([of.group], [resource], [verb], [in_namespace] if in_namespace else [])
            raise _standin.Err(types.ApiError_Denied(missing))

    def _written(self, verb: str, manifest: Manifest, subresource: str) -> objects.Object:
        self._record(verb, *_cluster.slot_of(manifest), subresource)
        return _fake.Object(manifest)

    def _record(self, verb: str, api_version: str, kind: str, key: ObjectKey, subresource: str = "") -> None:
        self.writes.append(f"{verb} {api_version} {kind} {key}" + (f" {subresource}" if subresource else ""))

    def queue_add(self, watch: str, key: types.ObjectKey) -> None:
        self._enqueue("queue.add", watch, key, None)

    def queue_add_after(self, watch: str, key: types.ObjectKey, milliseconds: int) -> None:
        self._enqueue("queue.add-after", watch, key, timedelta(milliseconds=milliseconds))

    def _enqueue(self, function: str, watch: str, key: types.ObjectKey, after: timedelta | None) -> None:
        problem = _namespace_problem(key.namespace) or _name_problem(key.name)
        if problem:
            raise Trap(f"{function} takes keys of objects: {problem}")
        if self._declaration(watch).get("trigger") != "self":
            targets = [name for name, one in self.plugin.watches.items() if one.declaration.get("trigger") == "self"]
            raise Trap(f"watch {watch!r} is not a target (its trigger isn't self): targets are {', '.join(targets) or 'none'}")
        self.queued.append((watch, ObjectKey(key.namespace, key.name), after))

    def events_publish(self, regarding: objects.Object, event_type: Any, reason: str, action: str, note: str) -> None:
        key = regarding.key()
        self.events.append(Event(ObjectKey(key.namespace, key.name), event_type.name.lower(), reason, action, note))

    def log_log(self, level: Any, message: str, fields: list[types.Pair]) -> None:
        self.log.append(Line(level.name.lower(), message, {pair.key: pair.value for pair in fields}))

    def metrics_counter(self, name: str, labels: list[types.Pair], value: float) -> None:
        self.metrics.append((name, {pair.key: pair.value for pair in labels}, value))

    metrics_gauge = metrics_histogram = metrics_counter

    def config_get(self) -> str:
        return json.dumps(self.config)


class _Active:
    """Installs the host while one of the plugin's functions runs."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def __enter__(self) -> None:
        self._previous = _standin.set_host(self._host)

    def __exit__(self, *_: object) -> None:
        _standin.set_host(self._previous)


def _failed(failure: types.Failure) -> Retry | Terminal:
    return (Terminal if isinstance(failure, types.Failure_Terminal) else Retry)(failure.value)


#: The most objects of a page.
_PAGE = 500


def _namespace_problem(namespace: str) -> str:
    if not namespace or re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace):
        return ""
    return f"{namespace!r} is not the name of a namespace"


def _name_problem(name: str) -> str:
    if not name:
        return "the name is empty"
    if len(name) > 253 or name in (".", "..") or re.search(r"[/%\x00-\x1f\x7f]", name):
        return f"{name!r} is not the name of an object"
    return ""


def _covers(rule: dict[str, Any], group: str, resource: str, verb: str, namespace: str) -> bool:
    namespaces = rule.get("namespaces") or ["*"]
    _, _, subresource = resource.partition("/")
    patterns = {"*", resource, f"*/{subresource}" if subresource else resource}
    return (
        not {"*", group}.isdisjoint(rule["apiGroups"])
        and not patterns.isdisjoint(rule["resources"])
        and not {"*", verb}.isdisjoint(rule["verbs"])
        and ("*" in namespaces or (namespace != "" and namespace in namespaces))
    )
