"""A fake host for unit tests, which runs a plugin's functions against objects in memory.

    host = testing.Host(controller.plugin)
    host.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "web"}})
    host.reconcile("configmaps", ("default", "web"))
    assert host.get("v1", "ConfigMap", ("default", "web"))["metadata"]["labels"] == {"seen": "yes"}

It stores what is written, assigns resource versions, rejects stale updates and undeclared writes, and evaluates the selectors and
indexes of the watches. It does not validate, set defaults or track field managers, and changes queue no work. To test what depends on a
real server, use `pilothouse dev`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from . import _fake, _guest, _standin
from ._standin import cache, client, objects, types
from .errors import Retry, Terminal
from .key import ObjectKey
from .object import Manifest
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
    #: The writes that succeeded: "create v1 ConfigMap default/web".
    writes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._cluster = _fake.Cluster()
        self._guest = _guest.Guest(self.plugin)
        self.descriptor: dict[str, Any] = {}
        with _Active(self):
            self._guest.describe(json.dumps(self.config))
            self.descriptor = self.plugin.descriptor()

    def add(self, manifest: Manifest) -> Manifest:
        """Adds an object to the cluster, or replaces the one with the same key; returns it as stored."""
        return copy.deepcopy(self._cluster.put(copy.deepcopy(manifest)))

    def get(self, api_version: str, kind: str, key: tuple[str, str]) -> Manifest | None:
        """Returns an object of the cluster, or None when it does not exist."""
        return copy.deepcopy(self._cluster.find(api_version, kind, ObjectKey(*key)))

    def remove(self, api_version: str, kind: str, key: tuple[str, str]) -> None:
        """Deletes an object as `kubectl delete` does: an object with finalizers only gets a deletion timestamp."""
        self._cluster.delete(api_version, kind, ObjectKey(*key), "", "")

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

    def _watched(self, watch: str, cache_filter: cache.Filter | None = None) -> list[Manifest]:
        if watch not in self.plugin.watches:
            raise LookupError(f"no watch {watch!r}; the descriptor has {', '.join(self.plugin.watches)}")
        declaration = self.plugin.watches[watch].declaration
        found = self._cluster.select(
            declaration["apiVersion"], declaration["kind"], declaration.get("labelSelector", "")
        )
        namespaces = declaration.get("namespaces")
        found = [one for one in found if not namespaces or ObjectKey.of(one).namespace in namespaces]
        if cache_filter is None:
            return found
        return _fake.narrowed(found, cache_filter.namespace, cache_filter.label_selector)

    def cache_get(self, watch: str, key: types.ObjectKey) -> objects.Object | None:
        wanted = ObjectKey(key.namespace, key.name)
        return next((_fake.Object(one) for one in self._watched(watch) if ObjectKey.of(one) == wanted), None)

    def cache_list(self, watch: str, cache_filter: cache.Filter) -> cache.Page:
        found, cursor = _fake.page(self._watched(watch, cache_filter), cache_filter.limit or 500, cache_filter.cursor)
        return cache.Page([_fake.Object(one) for one in found], cursor)

    def cache_list_fields(self, watch: str, cache_filter: cache.Filter, pointers: list[str]) -> list[cache.Row]:
        found, _ = _fake.page(self._watched(watch, cache_filter), cache_filter.limit or 1_000_000, cache_filter.cursor)
        rows = [_fake.Object(one) for one in found]
        return [cache.Row(one.key(), [one.field(pointer) for pointer in pointers]) for one in rows]

    def cache_by_index(self, watch: str, index: str, value: str) -> list[objects.Object]:
        return [_fake.Object(one) for one in self._watched(watch) if value in self._values(watch, index, one)]

    def cache_index_keys(self, watch: str, index: str, value: str) -> list[types.ObjectKey]:
        return [found.key() for found in self.cache_by_index(watch, index, value)]

    def cache_index_values(self, watch: str, index: str) -> list[str]:
        return sorted({value for one in self._watched(watch) for value in self._values(watch, index, one)})

    def cache_has_synced(self, watch: str) -> bool:
        return self._watched(watch) is not None

    def _values(self, watch: str, index: str, manifest: Manifest) -> list[str]:
        declared = {one["name"]: one for one in self.plugin.watches[watch].declaration.get("indexes", [])}
        if index not in declared:
            raise LookupError(f"no index {index!r} of the watch {watch!r}; it has {', '.join(declared) or 'none'}")
        if declared[index].get("computed"):
            # Not through the export, because that closes all handles at its end.
            from .object import Object

            return list(self.plugin.index_function(index)(Object(_fake.Object(manifest))))
        return _fake.index_values(declared[index], manifest)

    def client_get(self, target: types.ObjectType, key: types.ObjectKey, subresource: str) -> objects.Object:
        self._allow("get", target.api_version, target.kind, key.namespace, subresource)
        return _fake.Object(self._cluster.require(target.api_version, target.kind, ObjectKey(key.namespace, key.name)))

    def client_list(self, target: types.ObjectType, options: client.ListOptions) -> client.Page:
        self._allow("list", target.api_version, target.kind, options.namespace, "")
        found = self._cluster.select(target.api_version, target.kind, options.label_selector)
        found = _fake.narrowed(found, options.namespace, "", options.field_selector)
        found, cursor = _fake.page(found, options.limit or 500, options.cursor)
        return client.Page([_fake.Object(one) for one in found], cursor)

    def client_create(self, text: str, subresource: str) -> objects.Object:
        manifest = json.loads(text)
        self._write("create", manifest, subresource)
        return _fake.Object(self._cluster.create(manifest))

    def client_update(self, text: str, subresource: str) -> objects.Object:
        manifest = json.loads(text)
        self._write("update", manifest, subresource)
        return _fake.Object(self._cluster.update(manifest, subresource))

    def client_patch(
        self, target: types.ObjectType, key: types.ObjectKey, patch_type: Any, body: str, subresource: str
    ) -> objects.Object:
        metadata = {"namespace": key.namespace, "name": key.name}
        named = {"apiVersion": target.api_version, "kind": target.kind, "metadata": metadata}
        self._write("patch", named, subresource)
        return _fake.Object(self._cluster.patch(named, patch_type, json.loads(body), subresource))

    def client_delete(self, target: types.ObjectType, key: types.ObjectKey, options: client.DeleteOptions) -> None:
        metadata = {"namespace": key.namespace, "name": key.name}
        self._write("delete", {"apiVersion": target.api_version, "kind": target.kind, "metadata": metadata}, "")
        self._cluster.delete(
            target.api_version,
            target.kind,
            ObjectKey(key.namespace, key.name),
            options.uid,
            options.resource_version,
        )

    def _write(self, verb: str, manifest: Manifest, subresource: str) -> None:
        key = ObjectKey.of(manifest)
        api_version, kind = manifest["apiVersion"], manifest["kind"]
        self._allow(verb, api_version, kind, key.namespace, subresource)
        self.writes.append(f"{verb} {api_version} {kind} {key}" + (f" {subresource}" if subresource else ""))

    def _allow(self, verb: str, api_version: str, kind: str, namespace: str, subresource: str) -> None:
        group = api_version.rpartition("/")[0]
        plural = self._plural(kind) + (f"/{subresource}" if subresource else "")
        for rule in self.descriptor.get("writes", []):
            namespaces = rule.get("namespaces") or [namespace]
            if group in rule["apiGroups"] and plural in rule["resources"] and verb in rule["verbs"] and namespace in namespaces:
                return
        raise _standin.Err(types.ApiError_Denied(types.Rule([group], [plural], [verb], [])))

    def _plural(self, kind: str) -> str:
        for crd in self.descriptor.get("crds", []):
            if crd["spec"]["names"]["kind"] == kind:
                return str(crd["spec"]["names"]["plural"])
        return _fake.plural(kind)

    def queue_add(self, watch: str, key: types.ObjectKey) -> None:
        self.queued.append((watch, ObjectKey(key.namespace, key.name), None))

    def queue_add_after(self, watch: str, key: types.ObjectKey, milliseconds: int) -> None:
        self.queued.append((watch, ObjectKey(key.namespace, key.name), timedelta(milliseconds=milliseconds)))

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


