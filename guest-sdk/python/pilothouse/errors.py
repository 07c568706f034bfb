"""The errors of requests to the API server, and the two ways in which a call of a plugin fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from ._wit import types as wit


class Retry(Exception):
    """Raise this in a reconcile to have it retried with exponential backoff. Any other exception does the same and logs a traceback."""


class Terminal(Exception):
    """Raise this in a reconcile when a retry cannot succeed before the object changes."""


class PluginError(Exception):
    """The plugin's declarations are invalid. Raised when the plugin is built or loaded."""


@dataclass(frozen=True)
class Cause:
    """One field that the API server rejected."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


@dataclass(frozen=True)
class Rule:
    """The rule that the descriptor's `writes` or the operator's grant lacks. An empty list of namespaces means all namespaces."""

    api_groups: list[str]
    resources: list[str]
    verbs: list[str]
    namespaces: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        groups = ", ".join(group or "the core group" for group in self.api_groups)
        place = f" in {', '.join(self.namespaces)}" if self.namespaces else ""
        return f"{', '.join(self.verbs)} on {', '.join(self.resources)} of {groups}{place}"


class ApiError(Exception):
    """A request to the API server failed. The subclasses say why. When it is not caught, the host retries with backoff."""


class NotFound(ApiError):
    """404: the object, or its kind, does not exist."""


class AlreadyExists(ApiError):
    """409: the object to create already exists."""


class Conflict(ApiError):
    """409: the object changed since it was read, or another field manager owns a field of a server-side apply."""

    def __init__(self, message: str, resource_version: str | None = None) -> None:
        super().__init__(message)
        #: The object's current resource version; None when neither the server's answer nor the cache has it.
        self.resource_version = resource_version


class Invalid(ApiError):
    """422: the server rejected fields."""

    def __init__(self, causes: list[Cause]) -> None:
        super().__init__("invalid: " + "; ".join(map(str, causes)))
        self.causes = causes


class Forbidden(ApiError):
    """403: rejected by RBAC or by admission on the server."""


class Denied(ApiError):
    """Rejected by the host; nothing was sent. The descriptor's `writes` or the operator's grant lacks this rule."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(f"denied by the host: the descriptor's `writes` and the grant need {rule}")
        self.rule = rule


class TooManyRequests(ApiError):
    """429. The host's own rate limit is no error: the request waits."""

    def __init__(self, retry_after: timedelta) -> None:
        super().__init__(f"too many requests: try again in {retry_after.total_seconds():g} s")
        self.retry_after = retry_after


class Unavailable(ApiError):
    """There was no usable answer: connection refused, timeout, 502, 503 or 504. A write may have been applied nevertheless."""


class OtherApiError(ApiError):
    """Any other status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        #: The HTTP status.
        self.code = code
        #: The `reason` of the server's Status object; "" when it has none.
        self.reason = reason
        self.message = message


def from_wit(error: wit.ApiError) -> ApiError:
    """Converts an error of the contract to an exception."""
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
