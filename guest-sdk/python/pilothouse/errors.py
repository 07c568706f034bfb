"""What may go wrong: answers of the API server, and the two ways in which a call of a plugin fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from ._wit import types as wit


class Retry(Exception):
    """Raised in a reconcile: try again with exponential backoff. Any other exception does the same, with a traceback in the log."""


class Terminal(Exception):
    """Raised in a reconcile: trying again cannot help, not before the object changes."""


class PluginError(Exception):
    """The plugin declares something that cannot be. It shows when the plugin is built or loaded."""


@dataclass(frozen=True)
class Cause:
    """One field that the API server refused."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


@dataclass(frozen=True)
class Rule:
    """What the descriptor's `writes` or the operator's grant would have to contain. No namespaces means all."""

    api_groups: list[str]
    resources: list[str]
    verbs: list[str]
    namespaces: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        groups = ", ".join(group or "the core group" for group in self.api_groups)
        place = f" in {', '.join(self.namespaces)}" if self.namespaces else ""
        return f"{', '.join(self.verbs)} on {', '.join(self.resources)} of {groups}{place}"


class ApiError(Exception):
    """A request to the API server failed. The subclasses say how; uncaught, it makes the host try again with backoff."""


class NotFound(ApiError):
    """404: there is no such object, or no such kind."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""


class Conflict(ApiError):
    """409: the object changed since it was read, or a server-side apply met another field manager."""

    def __init__(self, message: str, resource_version: str | None = None) -> None:
        super().__init__(message)
        #: The object's present version; None when neither the server nor the cache knows it.
        self.resource_version = resource_version


class Invalid(ApiError):
    """422: the server refused fields."""

    def __init__(self, causes: list[Cause]) -> None:
        super().__init__("invalid: " + "; ".join(map(str, causes)))
        self.causes = causes


class Forbidden(ApiError):
    """403: refused by RBAC or admission on the server."""


class Denied(ApiError):
    """Refused by the host, nothing was sent: the descriptor's `writes` or the operator's grant lacks this rule."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(f"denied by the host: the descriptor's `writes` and the grant need {rule}")
        self.rule = rule


class TooManyRequests(ApiError):
    """429, or the host's own limit."""

    def __init__(self, retry_after: timedelta) -> None:
        super().__init__(f"too many requests: try again in {retry_after.total_seconds():g} s")
        self.retry_after = retry_after


class Unavailable(ApiError):
    """No answer; a write may nevertheless have happened."""


class OtherApiError(ApiError):
    """Any other status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        #: The HTTP status.
        self.code = code
        #: The `reason` of the server's Status, "" without one.
        self.reason = reason


def from_wit(error: wit.ApiError) -> ApiError:
    """The exception for an error of the contract."""
    match error:
        case wit.ApiError_NotFound(message):
            return NotFound(f"not found: {message}")
        case wit.ApiError_AlreadyExists(message):
            return AlreadyExists(f"already exists: {message}")
        case wit.ApiError_Conflict(info):
            return Conflict(f"conflict: {info.message}", info.resource_version or None)
        case wit.ApiError_Invalid(causes):
            return Invalid([Cause(cause.field, cause.reason, cause.message) for cause in causes])
        case wit.ApiError_Forbidden(message):
            return Forbidden(f"forbidden: {message}")
        case wit.ApiError_Denied(rule):
            return Denied(Rule(rule.api_groups, rule.resources, rule.verbs, rule.namespaces))
        case wit.ApiError_TooManyRequests(milliseconds):
            return TooManyRequests(timedelta(milliseconds=milliseconds))
        case wit.ApiError_Unavailable(message):
            return Unavailable(f"unavailable: {message}")
        case wit.ApiError_Other(status):
            return OtherApiError(status.code, status.reason, status.message)
