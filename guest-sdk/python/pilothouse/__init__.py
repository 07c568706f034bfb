"""Write Kubernetes controllers as WebAssembly plugins for Pilothouse.

    from pilothouse import Plugin, log, trigger

    plugin = Plugin("greeter", "0.1.0")
    configmaps = plugin.watch("configmaps", "v1", "ConfigMap", trigger=trigger.ITSELF)

    @plugin.reconcile(configmaps)
    def reconcile(request):
        if configmaps.get(request.key):
            log.info(f"hello, {request.key}")
        else:
            log.info(f"goodbye, {request.key}")

The host watches, caches, queues and retries; the plugin brings one object at a time to its desired state. Reads of a watch come
from the host's memory. `client` writes to the API server; the plugin's own reads see those writes immediately.
"""

from . import client, conditions, config, events, finalizer, index, log, metrics, owner, queue, trigger
from .cache import Cache, Page, Row
from .errors import (
    AlreadyExists,
    ApiError,
    Cause,
    Conflict,
    Denied,
    Forbidden,
    Invalid,
    NotFound,
    OtherApiError,
    PluginError,
    Retry,
    Rule,
    Terminal,
    TooManyRequests,
    Unavailable,
)
from .key import ObjectKey
from .object import Manifest, Object, Owner
from .plugin import Outcome, Plugin, Watch
from .request import Change, Notification, Reason, Request

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Cache",
    "Cause",
    "Change",
    "Conflict",
    "Denied",
    "Forbidden",
    "Invalid",
    "Manifest",
    "NotFound",
    "Notification",
    "Object",
    "ObjectKey",
    "OtherApiError",
    "Outcome",
    "Owner",
    "Page",
    "Plugin",
    "PluginError",
    "Reason",
    "Request",
    "Retry",
    "Row",
    "Rule",
    "Terminal",
    "TooManyRequests",
    "Unavailable",
    "Watch",
    "client",
    "conditions",
    "config",
    "events",
    "finalizer",
    "index",
    "log",
    "metrics",
    "owner",
    "queue",
    "trigger",
]
