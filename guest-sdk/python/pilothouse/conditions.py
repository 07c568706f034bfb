"""Status conditions, with the semantics of `k8s.io/apimachinery/pkg/api/meta`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

#: One of `status.conditions`.
Condition = dict[str, Any]


def condition(
    condition_type: str, status: bool, reason: str, message: str = "", *, observed_generation: int | None = None
) -> Condition:
    """Returns a condition whose status is `True` or `False`. `set_condition` fills in its transition time."""
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
    """Adds or updates a condition, and returns whether the list changed; if not, the status need not be written.
    `lastTransitionTime` becomes `now` only when the condition's status changes."""
    moment = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for position, present in enumerate(conditions):
        if present["type"] == wanted["type"]:
            status_changed = present["status"] != wanted["status"]
            time = moment if status_changed else present.get("lastTransitionTime", moment)
            conditions[position] = {**wanted, "lastTransitionTime": time}
            return conditions[position] != present
    conditions.append({**wanted, "lastTransitionTime": moment})
    return True


def find(conditions: list[Condition], condition_type: str) -> Condition | None:
    """Returns the condition of this type."""
    return next((condition for condition in conditions if condition["type"] == condition_type), None)


def is_true(conditions: list[Condition], condition_type: str) -> bool:
    """Returns whether the condition exists and is `True`."""
    found = find(conditions, condition_type)
    return found is not None and found["status"] == "True"


def remove(conditions: list[Condition], condition_type: str) -> bool:
    """Removes a condition, and returns whether it existed."""
    before = len(conditions)
    conditions[:] = [condition for condition in conditions if condition["type"] != condition_type]
    return len(conditions) != before
