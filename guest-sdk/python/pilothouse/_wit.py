"""The bindings of the contract. No other module knows where they come from.

In a plugin they are the module `wit_world`, which componentize-py generates from `wit/`. In a unit test they are `_standin`, which has
the same types and forwards the functions to the fake host of `pilothouse.testing`.
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
    """Converts a key to the contract's type."""
    namespace, name = of
    return types.ObjectKey(namespace, name)


def pairs(of: dict[str, str] | None) -> list[types.Pair]:
    """Converts keys and values to the contract's type."""
    return [types.Pair(key, str(value)) for key, value in (of or {}).items()]
