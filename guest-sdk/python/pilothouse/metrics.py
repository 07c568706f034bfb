"""The plugin's own metrics, which the host serves with the label `plugin`.

Use labels with few values: a label per object makes a series per object.
"""

from __future__ import annotations

from ._wit import metrics as wit
from ._wit import pairs


def counter(name: str, add: float = 1, labels: dict[str, str] | None = None) -> None:
    """Adds to a counter."""
    wit.counter(name, pairs(labels), float(add))


def gauge(name: str, value: float, labels: dict[str, str] | None = None) -> None:
    """Sets a gauge."""
    wit.gauge(name, pairs(labels), float(value))


def histogram(name: str, value: float, labels: dict[str, str] | None = None) -> None:
    """Records one observation in a histogram; use seconds for durations."""
    wit.histogram(name, pairs(labels), float(value))
