"""Durations, as the contract has them."""

from __future__ import annotations

from datetime import timedelta

#: The longest delay that the contract knows: 2³¹ − 1 milliseconds.
LONGEST = 2_147_483_647


def milliseconds(duration: timedelta) -> int:
    """Never shorter than asked for, never 0 for one that is not, never below 0."""
    rounded_up = -(-duration // timedelta(milliseconds=1))
    return max(0, min(rounded_up, LONGEST))


def text(duration: timedelta) -> str:
    """As Kubernetes writes it: `10s`, `1500ms`."""
    in_milliseconds = milliseconds(duration)
    seconds, rest = divmod(in_milliseconds, 1000)
    return f"{in_milliseconds}ms" if rest else f"{seconds}s"
