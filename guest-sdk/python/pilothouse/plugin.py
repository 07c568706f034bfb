"""The plugin's declarations and its functions."""

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

#: What a reconcile returns: None when it is done until a change, or a duration after which it is called again.
Outcome = timedelta | None
Reconcile = Callable[[Request], Outcome]
Observe = Callable[[list[Notification]], None]
IndexValues = Callable[[Object], Iterable[str]]
Configure = Callable[[dict[str, Any]], None]


class Watch(Cache):
    """A declared watch, by which its objects are read."""

    def __init__(self, name: str, declaration: dict[str, Any]) -> None:
        super().__init__(name)
        self.declaration = declaration


class Plugin:
    """A plugin. `name` should be the name of the .wasm file. A module has one plugin, created when the module is imported. `stateful` runs
    all calls on a single instance with one worker."""

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
        self._default_reconciler: Reconcile | None = None
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

        - `trigger`: which object a change queues; one of `pilothouse.trigger`. By default the objects are only cached.
        - `predicate`: a CEL expression over `object`, `old` and `event`. Changes for which it is false are ignored.
        - `labels`, `fields`: selectors in kubectl's syntax that restrict the watch.
        - `namespaces`: restricts the watch to these namespaces; empty for all.
        - `indexes`: the indexes by name; values are made by `pilothouse.index`.
        - `notify`: delivers every change to the plugin's observer.
        - `metadata_only`: caches only `apiVersion`, `kind` and `metadata`.
        - `resync`: queues every object again at this interval. By default there is no resync.
        - `resource`: the plural name in URLs, which is needed where several resources have the kind.
        """
        if name in self.watches:
            raise PluginError(f"there are two watches named {name!r}; rename one of them")
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
        """Declares requests to the API server: an API group ("" for the core group), plural names as in URLs separated by spaces
        ("deployments deployments/scale"), and verbs. The host denies requests that are not declared, or not granted by the operator."""
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
        """Requests limits other than the defaults; the operator's sidecar takes precedence. `memory` is a quantity such as "128Mi"."""
        requested = {
            "memory": memory,
            "reconcileTimeout": reconcile_timeout and _duration.text(reconcile_timeout),
            "observeTimeout": observe_timeout and _duration.text(observe_timeout),
            "handles": handles,
        }
        self._limits.update({key: value for key, value in requested.items() if value is not None})

    def reconcile(self, *watches: str | Watch) -> Callable[[Reconcile], Reconcile]:
        """Registers a function as the reconcile of these target watches; without arguments, of all that have no other.

        The function brings the object of `request.key` to its desired state, deciding from what the watches hold now; the object may
        have been deleted. It returns None, or the time after which it is called again.
        """

        def register(function: Reconcile) -> Reconcile:
            if not watches:
                self._default_reconciler = function
            for watch in watches:
                self._reconcilers[name_of(watch)] = function
            return function

        return register

    def observe(self, function: Observe) -> Observe:
        """Registers a function as the observer of the watches with `notify`. It receives every change, in order, in lists.

        All calls go to one instance, so the plugin may keep state in memory. After `Retry` the host delivers the list again. Any other
        exception ends the instance, and the next instance first receives all existing objects.
        """
        self._observer = function
        return function

    def index(self, name: str) -> Callable[[IndexValues], IndexValues]:
        """Registers a function that computes the values of an index, which a watch declares with `index.computed()`.

        The values must depend on nothing but the object. After an exception the object is missing from the index until it changes.
        """

        def register(function: IndexValues) -> IndexValues:
            self._indexes[name] = function
            return function

        return register

    def configure(self, function: Configure) -> Configure:
        """Registers a function that receives the sidecar's `config`, once in every instance, before any other function is called.

        The function may declare watches and writes, and set variables of the module. An exception refuses the load; its text is shown
        to the operator.
        """
        self._configure.append(function)
        return function

    @property
    def exports(self) -> list[str]:
        """The interfaces of the contract that the plugin exports."""
        used = {
            "plugin": True,
            "reconcile": self._reconcilers or self._default_reconciler,
            "observe": self._observer,
            "index": self._indexes,
        }
        return [name for name, functions in used.items() if functions]

    def descriptor(self) -> dict[str, Any]:
        """Returns the descriptor, which the host reads once per load."""
        self._check()
        document: dict[str, Any] = {"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", **self._header}
        document["watches"] = [watch.declaration for watch in self.watches.values()]
        optional = {"writes": self._writes, "crds": self._crds, "limits": self._limits}
        document.update({key: value for key, value in optional.items() if value})
        return document

    def _check(self) -> None:
        """Checks that every function has a declaration and every declaration its function.

        Raises `PluginError` otherwise.
        """
        targets = {name for name, watch in self.watches.items() if watch.declaration.get("trigger") == ITSELF}
        for name in self._reconcilers.keys() - targets:
            known = ", ".join(sorted(targets)) or "none"
            raise PluginError(
                f"reconcile({name!r}): no watch of this name has trigger=trigger.ITSELF (those that have: {known})"
            )
        for name in () if self._default_reconciler else targets - self._reconcilers.keys():
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
        """Returns the function that was registered for the watch."""
        function = self._reconcilers.get(watch, self._default_reconciler)
        if function is None:
            raise PluginError(f"there is no @plugin.reconcile for the watch {watch!r}")
        return function

    def observe_function(self) -> Observe:
        """Returns the observer."""
        if self._observer is None:
            raise PluginError("there is no @plugin.observe")
        return self._observer

    def index_function(self, name: str) -> IndexValues:
        """Returns the function that was registered for the index."""
        if name not in self._indexes:
            raise PluginError(f"there is no @plugin.index({name!r})")
        return self._indexes[name]

    def run_configure(self, config: dict[str, Any]) -> None:
        """Calls the functions that receive the config."""
        for function in self._configure:
            function(config)
