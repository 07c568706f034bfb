"""Conditions in a status, as Kubernetes' own controllers treat them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

#: One of `status.conditions`.
Condition = dict[str, Any]


def condition(
    condition_type: str, status: bool, reason: str, message: str = "", *, observed_generation: int | None = None
) -> Condition:
    """A condition that holds or does not. The time of the transition is set by `set_condition`."""
    made: Condition = {
        "type": condition_type,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
    }
    if observed_generation is not None:
        made["observedGeneration"] = observed_generation
    return made


def set_condition(conditions: list[Condition], wanted: Condition, *, now: datetime | None = None) -> bool:
    """Adds a condition or brings it up to date, and says whether that changed anything (if not, there is nothing to write).
    `lastTransitionTime` becomes `now` only when the status flips."""
    moment = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for position, present in enumerate(conditions):
        if present["type"] == wanted["type"]:
            flips = present["status"] != wanted["status"]
            time = moment if flips else present.get("lastTransitionTime", moment)
            conditions[position] = {**wanted, "lastTransitionTime": time}
            return conditions[position] != present
    conditions.append({**wanted, "lastTransitionTime": moment})
    return True


def find(conditions: list[Condition], condition_type: str) -> Condition | None:
    """The condition of this type."""
    return next((condition for condition in conditions if condition["type"] == condition_type), None)


def is_true(conditions: list[Condition], condition_type: str) -> bool:
    """Whether the condition is there and `True`."""
    found = find(conditions, condition_type)
    return found is not None and found["status"] == "True"


def remove(conditions: list[Condition], condition_type: str) -> bool:
    """Removes a condition, and says whether it was there."""
    before = len(conditions)
    conditions[:] = [condition for condition in conditions if condition["type"] != condition_type]
    return len(conditions) != before
