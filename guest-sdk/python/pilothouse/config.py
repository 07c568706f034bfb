"""The `config` of the plugin's sidecar."""

from __future__ import annotations

import json
from typing import Any

from ._wit import config as wit


def get() -> dict[str, Any]:
    """Returns the configuration; empty when the sidecar has none. It is constant for the lifetime of an instance, and
    `@plugin.configure` receives it once."""
    config: dict[str, Any] = json.loads(wit.get())
    return config
