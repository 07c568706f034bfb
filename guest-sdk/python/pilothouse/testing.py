"""A host for unit tests: a plugin's functions run as they are, against objects in memory.

    host = testing.Host(controller.plugin)
    host.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "web"}})
    host.reconcile("configmaps", ("default", "web"))
    assert host.get("v1", "ConfigMap", ("default", "web"))["metadata"]["labels"] == {"seen": "yes"}

It keeps what is written, numbers versions, refuses stale updates and what the plugin does not declare, and answers the watches with
their selectors and indexes. It does not validate, default, or apply by field managers, and it triggers nothing: what only a
server can answer is for `pilothouse dev`.
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
    """An Event that the plugin has published."""

    #: Of the object that it is about.
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
    """The host and the API server, as a plugin sees them. Tests of several may be run one after another, not at once."""

    plugin: Plugin
    config: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    log: list[Line] = field(default_factory=list)
    #: What `queue.add` was asked for: watch, key, and after which time.
    queued: list[tuple[str, ObjectKey, timedelta | None]] = field(default_factory=list)
    #: Name, labels and value of every call.
    metrics: list[tuple[str, dict[str, str], float]] = field(default_factory=list)
    #: The writes that succeeded: "create v1 ConfigMap default/web".
    writes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._cluster = _fake.Cluster()
        self._guest = _guest.Guest(self.plugin)
        self.descriptor: dict[str, Any] = {}
        with _Playing(self):
            self._guest.describe(json.dumps(self.config))
            self.descriptor = self.plugin.descriptor()

    def add(self, manifest: Manifest) -> Manifest:
        """Puts an object into the cluster, or in the place of what has its name; returns it as stored."""
        return copy.deepcopy(self._cluster.put(copy.deepcopy(manifest)))

    def get(self, api_version: str, kind: str, key: tuple[str, str]) -> Manifest | None:
        """An object of the cluster."""
        return copy.deepcopy(self._cluster.find(api_version, kind, ObjectKey(*key)))

    def remove(self, api_version: str, kind: str, key: tuple[str, str]) -> None:
        """Deletes an object as `kubectl delete` does: one with finalizers is only marked."""
        self._cluster.delete(api_version, kind, ObjectKey(*key), "", "")

    def reconcile(
        self, watch: str, key: tuple[str, str], *, reasons: Iterable[Reason] = (Reason.UPDATED,), attempt: int = 0
    ) -> Outcome:
        """Runs the plugin's reconcile. What it raised comes as `Retry` or `Terminal`, with the text that the host would get."""
        request = types.Request(
            watch, types.ObjectKey(*key), [types.Reason[reason.name] for reason in reasons], attempt, []
        )
        with _Playing(self):
            try:
                outcome = self._guest.reconcile(request)
            except _standin.Err as error:
                raise _failed(error.value) from None
        return timedelta(milliseconds=outcome.value) if isinstance(outcome, types.Outcome_RequeueAfter) else None

    def observe(self, watch: str, *changes: tuple[Manifest | None, Manifest | None], initial: bool = False) -> None:
        """Tells the plugin's observer of changes: the state before and the state after of each, None for an addition or a deletion."""
        notifications = [_fake.notification(watch, before, after, initial) for before, after in changes]
        with _Playing(self):
            try:
                self._guest.observe(notifications, _fake.Batch(list(changes)))
            except _standin.Err as error:
                raise _failed(error.value) from None

    def index_values(self, index: str, manifest: Manifest) -> list[str]:
        """What the plugin's function answers for a computed index."""
        with _Playing(self):
            return self._guest.values(index, _fake.Object(manifest))

    # What the contract's functions ask for.

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

    def cache_list(self, watch: str, wanted: cache.Filter) -> cache.Page:
        found, after = _fake.page(self._watched(watch, wanted), wanted.limit or 500, wanted.cursor)
        return cache.Page([_fake.Object(one) for one in found], after)

    def cache_list_fields(self, watch: str, wanted: cache.Filter, pointers: list[str]) -> list[cache.Row]:
        found, _ = _fake.page(self._watched(watch, wanted), wanted.limit or 1_000_000, wanted.cursor)
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
            # Not by the export, which closes all handles at its end.
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
        found, after = _fake.page(found, options.limit or 500, options.cursor)
        return client.Page([_fake.Object(one) for one in found], after)

    def client_create(self, text: str, subresource: str) -> objects.Object:
        manifest = json.loads(text)
        self._write("create", manifest, subresource)
        return _fake.Object(self._cluster.create(manifest))

    def client_update(self, text: str, subresource: str) -> objects.Object:
        manifest = json.loads(text)
        self._write("update", manifest, subresource)
        return _fake.Object(self._cluster.update(manifest, subresource))

    def client_patch(
        self, target: types.ObjectType, key: types.ObjectKey, how: Any, body: str, subresource: str
    ) -> objects.Object:
        metadata = {"namespace": key.namespace, "name": key.name}
        named = {"apiVersion": target.api_version, "kind": target.kind, "metadata": metadata}
        self._write("patch", named, subresource)
        return _fake.Object(self._cluster.patch(named, how, json.loads(body), subresource))

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
            places = rule.get("namespaces") or [namespace]
            if group in rule["apiGroups"] and plural in rule["resources"] and verb in rule["verbs"] and namespace in places:
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


class _Playing:
    """The host is there while one of the plugin's functions runs."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def __enter__(self) -> None:
        self._before = _standin.play(self._host)

    def __exit__(self, *_: object) -> None:
        _standin.play(self._before)


def _failed(failure: types.Failure) -> Retry | Terminal:
    return (Terminal if isinstance(failure, types.Failure_Terminal) else Retry)(failure.value)


