"""The plugin: what it watches, indexes and writes, and its functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from . import _duration
from .cache import Cache
from .errors import PluginError
from .index import Index
from .object import Manifest, Object
from .request import Notification, Request
from .trigger import ITSELF, Trigger, name_of

#: What a reconcile returns: None when it is done until something changes, a duration to be called again after.
Outcome = timedelta | None
Reconcile = Callable[[Request], Outcome]
Observe = Callable[[list[Notification]], None]
IndexValues = Callable[[Object], Iterable[str]]
Configure = Callable[[dict[str, Any]], None]


class Watch(Cache):
    """A declared watch: also the way to read its objects."""

    def __init__(self, name: str, declaration: dict[str, Any]) -> None:
        super().__init__(name)
        self.declaration = declaration


class Plugin:
    """A plugin; the name should be that of its .wasm file. One per module, made when the module is imported."""

    def __init__(self, name: str, version: str, *, summary: str = "", stateful: bool = False) -> None:
        self._header: dict[str, Any] = {"name": name, "version": version}
        if summary:
            self._header["summary"] = summary
        if stateful:
            self._header["stateful"] = True
        self.watches: dict[str, Watch] = {}
        self._writes: list[dict[str, Any]] = []
        self._crds: list[Manifest] = []
        self._limits: dict[str, Any] = {}
        self._reconcilers: dict[str, Reconcile] = {}
        self._reconcile_rest: Reconcile | None = None
        self._observer: Observe | None = None
        self._indexes: dict[str, IndexValues] = {}
        self._configure: list[Configure] = []

    def watch(
        self,
        name: str,
        api_version: str,
        kind: str,
        *,
        trigger: Trigger | None = None,
        predicate: str = "",
        labels: str = "",
        fields: str = "",
        namespaces: Sequence[str] = (),
        indexes: Mapping[str, Index] | None = None,
        notify: bool = False,
        metadata_only: bool = False,
        resync: timedelta | None = None,
        resource: str = "",
    ) -> Watch:
        """Declares a watch and returns it.

        `trigger` is one of `pilothouse.trigger`. A change for which the CEL expression `predicate` over `object`, `old` and
        `event` is false starts no work. `labels` and `fields` are selectors in kubectl's syntax, `namespaces` none for all.
        `indexes` are those of `pilothouse.index`, by name. `notify` tells the observer, `metadata_only` holds no more of each
        object, `resync` starts the work of every object again after that time, and `resource` is the plural name in URLs
        where several have the kind.
        """
        if name in self.watches:
            raise PluginError(f"two watches are called {name!r}; give one of them another name")
        declaration: dict[str, Any] = {"name": name, "apiVersion": api_version, "kind": kind}
        optional = {
            "resource": resource,
            "namespaces": list(namespaces),
            "labelSelector": labels,
            "fieldSelector": fields,
            "projection": "metadata" if metadata_only else None,
            "trigger": trigger,
            "predicate": predicate,
            "notify": notify,
            "resync": resync and _duration.milliseconds(resync),
            "indexes": [{"name": index, **source} for index, source in (indexes or {}).items()],
        }
        declaration.update({key: value for key, value in optional.items() if value})
        watch = self.watches[name] = Watch(name, declaration)
        return watch

    def writes(self, group: str, resources: str, *verbs: str, namespaces: Sequence[str] = ()) -> None:
        """Declares requests to the API server: a group ("" for core), resources as in URLs ("deployments deployments/scale") and
        verbs. What is not declared, or not granted by the operator, is refused by the host."""
        rule = {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}
        self._writes.append({**rule, "namespaces": list(namespaces)} if namespaces else rule)

    def crd(self, manifest: Manifest) -> None:
        """Adds a CustomResourceDefinition, which the host applies before it starts the watches."""
        self._crds.append(manifest)

    def limits(
        self,
        *,
        memory: str | None = None,
        reconcile_timeout: timedelta | None = None,
        observe_timeout: timedelta | None = None,
        handles: int | None = None,
    ) -> None:
        """Wishes for limits; the operator decides. `memory` is a quantity such as "128Mi"."""
        wishes = {
            "memory": memory,
            "reconcileTimeout": reconcile_timeout and _duration.text(reconcile_timeout),
            "observeTimeout": observe_timeout and _duration.text(observe_timeout),
            "handles": handles,
        }
        self._limits.update({key: value for key, value in wishes.items() if value is not None})

    def reconcile(self, *watches: str | Watch) -> Callable[[Reconcile], Reconcile]:
        """Makes a function the reconcile of these target watches; without any, of all that have no other.

        It brings the object that `request.key` names to its desired state, deciding from what the watches hold now; the object
        may be gone. It returns None, or the time after which it wants to be called again.
        """

        def register(function: Reconcile) -> Reconcile:
            if not watches:
                self._reconcile_rest = function
            for watch in watches:
                self._reconcilers[name_of(watch)] = function
            return function

        return register

    def observe(self, function: Observe) -> Observe:
        """Makes a function the observer of the watches with `notify`: it takes every change, in order, a list at a time.

        All calls go to one instance, so what it learns it may keep in memory. `Retry` brings the list again; any other exception
        ends the instance, and the next one is first told of everything that is there.
        """
        self._observer = function
        return function

    def index(self, name: str) -> Callable[[IndexValues], IndexValues]:
        """Makes a function compute the values of an index that a watch declares with `index.computed()`.

        They must depend on the object alone. An exception leaves the object out of the index until it changes.
        """

        def register(function: IndexValues) -> IndexValues:
            self._indexes[name] = function
            return function

        return register

    def configure(self, function: Configure) -> Configure:
        """Makes a function take the sidecar's `config`, before anything else, once in every instance.

        It may declare watches and writes, and set variables of the module. An exception refuses the load; its text reaches
        the operator.
        """
        self._configure.append(function)
        return function

    @property
    def exports(self) -> list[str]:
        """The interfaces of the contract that the plugin's functions need."""
        used = {
            "plugin": True,
            "reconcile": self._reconcilers or self._reconcile_rest,
            "observe": self._observer,
            "index": self._indexes,
        }
        return [name for name, functions in used.items() if functions]

    def descriptor(self) -> dict[str, Any]:
        """The document that the host reads once per load."""
        self._check()
        document: dict[str, Any] = {"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", **self._header}
        document["watches"] = [watch.declaration for watch in self.watches.values()]
        optional = {"writes": self._writes, "crds": self._crds, "limits": self._limits}
        document.update({key: value for key, value in optional.items() if value})
        return document

    def _check(self) -> None:
        """Finds functions without declarations and declarations without functions."""
        targets = {name for name, watch in self.watches.items() if watch.declaration.get("trigger") == ITSELF}
        for name in self._reconcilers.keys() - targets:
            known = ", ".join(sorted(targets)) or "none"
            raise PluginError(
                f"reconcile({name!r}): no watch of this name has trigger=trigger.ITSELF (those that have: {known})"
            )
        for name in () if self._reconcile_rest else targets - self._reconcilers.keys():
            raise PluginError(f"the watch {name!r} triggers itself, and there is no @plugin.reconcile({name!r})")
        notifies = any(watch.declaration.get("notify") for watch in self.watches.values())
        if notifies and not self._observer:
            raise PluginError("a watch has notify=True, and there is no @plugin.observe")
        if self._observer and not notifies:
            raise PluginError("there is an @plugin.observe, and no watch has notify=True")
        indexes = [index for watch in self.watches.values() for index in watch.declaration.get("indexes", [])]
        computed = {index["name"] for index in indexes if index.get("computed")}
        for name in computed ^ self._indexes.keys():
            missing = f"there is no @plugin.index({name!r})" if name in computed else "no watch declares it"
            raise PluginError(f"the computed index {name!r}: {missing}")

    def reconcile_function(self, watch: str) -> Reconcile:
        """What was registered for the watch."""
        function = self._reconcilers.get(watch, self._reconcile_rest)
        if function is None:
            raise PluginError(f"there is no @plugin.reconcile for the watch {watch!r}")
        return function

    def observe_function(self) -> Observe:
        """The observer."""
        if self._observer is None:
            raise PluginError("there is no @plugin.observe")
        return self._observer

    def index_function(self, name: str) -> IndexValues:
        """What was registered for the index."""
        if name not in self._indexes:
            raise PluginError(f"there is no @plugin.index({name!r})")
        return self._indexes[name]

    def run_configure(self, config: dict[str, Any]) -> None:
        """Calls what takes the config."""
        for function in self._configure:
            function(config)
