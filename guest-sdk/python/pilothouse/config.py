"""The `config` of the plugin's sidecar."""

from __future__ import annotations

import json
from typing import Any

from ._wit import config as wit


def get() -> dict[str, Any]:
    """All of it; empty without one. It stays the same while an instance lives; `@plugin.configure` is given it once."""
    config: dict[str, Any] = json.loads(wit.get())
    return config
