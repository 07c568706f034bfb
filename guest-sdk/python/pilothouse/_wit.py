"""The contract, as componentize-py makes it from `wit/`: the one place that knows where it comes from.

In a plugin it is the module `wit_world`. Outside of one, in a unit test, it is a stand-in of the same shape, whose functions
talk to the host that `pilothouse.testing` plays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    in_plugin: bool
    from ._standin import Err, cache, changes, client, config, events, log, metrics, objects, queue, types
else:
    try:
        import wit_world

        in_plugin = True
    except ModuleNotFoundError:
        in_plugin = False
    if in_plugin:
        from componentize_py_types import Err
        from wit_world.imports import cache, changes, client, config, events, log, metrics, objects, queue, types
    else:
        from ._standin import Err, cache, changes, client, config, events, log, metrics, objects, queue, types


__all__ = [
    "Err",
    "cache",
    "changes",
    "client",
    "config",
    "events",
    "in_plugin",
    "key",
    "log",
    "metrics",
    "objects",
    "pairs",
    "queue",
    "types",
]


def key(of: tuple[str, str]) -> types.ObjectKey:
    """A key in the contract's form."""
    namespace, name = of
    return types.ObjectKey(namespace, name)


def pairs(of: dict[str, str] | None) -> list[types.Pair]:
    """Keys and values in the contract's form."""
    return [types.Pair(key, str(value)) for key, value in (of or {}).items()]
