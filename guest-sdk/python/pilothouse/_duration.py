"""Conversions of durations to the formats of the contract."""

from __future__ import annotations

from datetime import timedelta

#: The longest delay of the contract: 2³¹ − 1 milliseconds.
MAX_DELAY_MS = 2_147_483_647


def milliseconds(duration: timedelta) -> int:
    """Converts a duration to milliseconds, rounding up, and limits it to the range from 0 to `MAX_DELAY_MS`."""
    rounded_up = -(-duration // timedelta(milliseconds=1))
    return max(0, min(rounded_up, MAX_DELAY_MS))


def text(duration: timedelta) -> str:
    """Formats a duration as Kubernetes does: `10s`, `1500ms`."""
    in_milliseconds = milliseconds(duration)
    seconds, rest = divmod(in_milliseconds, 1000)
    return f"{in_milliseconds}ms" if rest else f"{seconds}s"
