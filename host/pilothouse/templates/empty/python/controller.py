"""A controller for Pilothouse."""

from pilothouse import Plugin, Request, log, trigger

plugin = Plugin("{{name}}", "0.1.0")
configmaps = plugin.watch("configmaps", "v1", "ConfigMap", trigger=trigger.ITSELF)


@plugin.reconcile(configmaps)
def reconcile(request: Request) -> None:
    if configmaps.get(request.key):
        log.info(f"hello, {request.key}")
