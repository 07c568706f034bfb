"""The acceptance plugin in Python, as specified by ../README.md."""

from pilothouse import Notification, Object, Plugin, Request, Terminal, index, log, trigger

import operations
from script import Script

LABEL = "test=acceptance"

plugin = Plugin("acceptance-python", "0.1.0", summary="Performs the operations of ConfigMaps")
scripts = plugin.watch("scripts", "v1", "ConfigMap", labels=LABEL, trigger=trigger.ITSELF)
items = plugin.watch(
    "items",
    "v1",
    "ConfigMap",
    labels="test=acceptance-item",
    notify=True,
    indexes={"byGroup": index.field("{.data.group}"), "byWord": index.computed()},
)
namespaces = plugin.watch("namespaces", "v1", "Namespace")
plugin.watch("deployments", "apps/v1", "Deployment", labels="test=acceptance-item")

VERBS = ["get", "list", "create", "update", "patch", "delete"]
plugin.writes("", "configmaps", *VERBS)
plugin.writes("apps", "deployments deployments/status deployments/scale", *VERBS)


@plugin.configure
def configure(config: dict):
    if "fail" in config:
        raise Terminal(config["fail"])


@plugin.reconcile("scripts")
def reconcile(request: Request):
    found = scripts.get(request.key)
    if found is None:
        return None
    with found:
        script = Script(request, found)
        operation = operations.ALL.get(script.op)
        if operation is None:
            raise Terminal(f"no operation {script.op}")
        return operation(script)


@plugin.observe
def observe(notifications: list[Notification]):
    for notification in notifications:
        after = notification.after_raw("/data/value")
        if after == '"trap"':
            raise RuntimeError(f"{notification.key} says trap")
        before = notification.before
        log.info(
            "observed",
            watch=notification.watch,
            key=notification.key,
            change=notification.change,
            initial=str(notification.initial).lower(),
            unknown=str(notification.final_state_unknown).lower(),
            before="-" if before is None else or_dash(before.text("/data/value")),
            after=or_dash(after),
        )


@plugin.index("byWord")
def words(item: Object):
    found = [word for word in (item.text("/data/words") or "").split(" ") if word]
    if "trap" in found:
        raise RuntimeError(f"{item.key} says trap")
    return found


def or_dash(text: str | None) -> str:
    return "-" if text is None else text
