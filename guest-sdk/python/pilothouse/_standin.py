"""A stand-in for the bindings that componentize-py generates from `wit/`, for code that runs outside of a plugin: unit tests.

It has the same types. Its functions call the fake host of the running test (`pilothouse.testing`), and raise without one.
`tests/test_standin.py` compares it with the generated bindings.
"""

# The names are those that componentize-py generates.
# ruff: noqa: N801, A001, A003, D101, D102, D106
from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, Union

E = TypeVar("E")


@dataclass
class Err(Generic[E], Exception):
    """The error of a function."""

    value: E


class types:
    @dataclass
    class ObjectKey:
        namespace: str
        name: str

    @dataclass
    class ObjectType:
        api_version: str
        kind: str

    @dataclass
    class Pair:
        key: str
        value: str

    Reason = Enum("Reason", "CREATED UPDATED DELETED RESYNC REQUEUE RETRY STARTUP OTHER", start=0)
    Change = Enum("Change", "ADDED UPDATED DELETED RESYNC", start=0)

    @dataclass
    class Request:
        watch: str
        key: types.ObjectKey
        reasons: list[types.Reason]
        attempt: int
        extra: list[types.Pair]

    @dataclass
    class Outcome_Done:
        pass

    @dataclass
    class Outcome_RequeueAfter:
        value: int

    Outcome = Union[Outcome_Done, Outcome_RequeueAfter]

    @dataclass
    class Failure_Retry:
        value: str

    @dataclass
    class Failure_Terminal:
        value: str

    Failure = Union[Failure_Retry, Failure_Terminal]

    @dataclass
    class Rule:
        api_groups: list[str]
        resources: list[str]
        verbs: list[str]
        namespaces: list[str]

    @dataclass
    class Cause:
        field: str
        reason: str
        message: str

    @dataclass
    class ConflictInfo:
        message: str
        resource_version: str

    @dataclass
    class HttpStatus:
        code: int
        reason: str
        message: str

    @dataclass
    class ApiError_NotFound:
        value: str

    @dataclass
    class ApiError_AlreadyExists:
        value: str

    @dataclass
    class ApiError_Conflict:
        value: types.ConflictInfo

    @dataclass
    class ApiError_Invalid:
        value: list[types.Cause]

    @dataclass
    class ApiError_Forbidden:
        value: str

    @dataclass
    class ApiError_Denied:
        value: types.Rule

    @dataclass
    class ApiError_TooManyRequests:
        value: int

    @dataclass
    class ApiError_Unavailable:
        value: str

    @dataclass
    class ApiError_Other:
        value: types.HttpStatus

    ApiError = Union[
        ApiError_NotFound,
        ApiError_AlreadyExists,
        ApiError_Conflict,
        ApiError_Invalid,
        ApiError_Forbidden,
        ApiError_Denied,
        ApiError_TooManyRequests,
        ApiError_Unavailable,
        ApiError_Other,
    ]


class objects:
    @dataclass
    class Owner:
        api_version: str
        kind: str
        name: str
        uid: str

    class Object(Protocol):
        def key(self) -> types.ObjectKey: ...
        def api_version(self) -> str: ...
        def kind(self) -> str: ...
        def uid(self) -> str: ...
        def resource_version(self) -> str: ...
        def generation(self) -> int: ...
        def labels(self) -> list[types.Pair]: ...
        def label(self, key: str) -> str | None: ...
        def annotation(self, key: str) -> str | None: ...
        def deletion_timestamp(self) -> str | None: ...
        def controller(self) -> objects.Owner | None: ...
        def field(self, pointer: str) -> str | None: ...
        def text(self, pointer: str) -> str | None: ...
        def fields(self, pointers: list[str]) -> list[str | None]: ...
        def texts(self, pointers: list[str]) -> list[str | None]: ...
        def json(self) -> str: ...
        def __enter__(self) -> Self: ...
        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> bool | None: ...


class changes:
    class Batch(Protocol):
        def before(self, position: int) -> objects.Object | None: ...
        def after(self, position: int) -> objects.Object | None: ...
        def after_field(self, position: int, pointer: str) -> str | None: ...
        def __enter__(self) -> Self: ...
        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> bool | None: ...


#: The fake host of the running test. Its methods are named `INTERFACE_FUNCTION`.
_host: Any = None


def set_host(host: Any) -> Any:
    """Sets the fake host, and returns the previous one."""
    global _host
    previous, _host = _host, host
    return previous


def _call(function: str, *arguments: Any) -> Any:
    if _host is None:
        name = function.replace("_", ".", 1)
        raise RuntimeError(f"{name}: there is no host outside of a plugin; in a unit test, use pilothouse.testing.Host")
    return getattr(_host, function)(*arguments)


class cache:
    @dataclass
    class Filter:
        namespace: str
        label_selector: str
        limit: int
        cursor: str

    @dataclass
    class Page:
        items: list[objects.Object]
        next: str

    @dataclass
    class Row:
        key: types.ObjectKey
        values: list[str | None]

    @staticmethod
    def get(watch: str, key: types.ObjectKey) -> objects.Object | None:
        return _call("cache_get", watch, key)  # type: ignore[no-any-return]

    @staticmethod
    def list(watch: str, filter: cache.Filter) -> cache.Page:
        return _call("cache_list", watch, filter)  # type: ignore[no-any-return]

    @staticmethod
    def list_fields(watch: str, filter: cache.Filter, pointers: Any) -> Any:
        return _call("cache_list_fields", watch, filter, pointers)

    @staticmethod
    def by_index(watch: str, index: str, value: str) -> Any:
        return _call("cache_by_index", watch, index, value)

    @staticmethod
    def index_keys(watch: str, index: str, value: str) -> Any:
        return _call("cache_index_keys", watch, index, value)

    @staticmethod
    def index_values(watch: str, index: str) -> Any:
        return _call("cache_index_values", watch, index)

    @staticmethod
    def has_synced(watch: str) -> bool:
        return bool(_call("cache_has_synced", watch))


class client:
    @dataclass
    class ListOptions:
        namespace: str
        label_selector: str
        field_selector: str
        limit: int
        cursor: str

    @dataclass
    class Page:
        items: list[objects.Object]
        next: str

    @dataclass
    class ApplyOptions:
        field_manager: str
        force: bool

    @dataclass
    class PatchType_Json:
        pass

    @dataclass
    class PatchType_Merge:
        pass

    @dataclass
    class PatchType_Strategic:
        pass

    @dataclass
    class PatchType_Apply:
        value: client.ApplyOptions

    Propagation = Enum("Propagation", "BACKGROUND FOREGROUND ORPHAN", start=0)

    @dataclass
    class DeleteOptions:
        propagation: client.Propagation
        uid: str
        resource_version: str

    @staticmethod
    def get(target: types.ObjectType, key: types.ObjectKey, subresource: str) -> objects.Object:
        return _call("client_get", target, key, subresource)  # type: ignore[no-any-return]

    @staticmethod
    def list(target: types.ObjectType, options: client.ListOptions) -> client.Page:
        return _call("client_list", target, options)  # type: ignore[no-any-return]

    @staticmethod
    def create(manifest: str, subresource: str) -> objects.Object:
        return _call("client_create", manifest, subresource)  # type: ignore[no-any-return]

    @staticmethod
    def update(manifest: str, subresource: str) -> objects.Object:
        return _call("client_update", manifest, subresource)  # type: ignore[no-any-return]

    @staticmethod
    def patch(target: types.ObjectType, key: types.ObjectKey, patch_type: Any, body: str, subresource: str) -> Any:
        return _call("client_patch", target, key, patch_type, body, subresource)

    @staticmethod
    def delete(target: types.ObjectType, key: types.ObjectKey, options: client.DeleteOptions) -> None:
        _call("client_delete", target, key, options)


class queue:
    @staticmethod
    def add(watch: str, key: types.ObjectKey) -> None:
        _call("queue_add", watch, key)

    @staticmethod
    def add_after(watch: str, key: types.ObjectKey, milliseconds: int) -> None:
        _call("queue_add_after", watch, key, milliseconds)


class events:
    EventType = Enum("EventType", "NORMAL WARNING", start=0)

    @staticmethod
    def publish(regarding: objects.Object, event_type: events.EventType, reason: str, action: str, note: str) -> None:
        _call("events_publish", regarding, event_type, reason, action, note)


class log:
    Level = Enum("Level", "DEBUG INFO WARN ERROR", start=0)

    @staticmethod
    def log(level: log.Level, message: str, fields: list[types.Pair]) -> None:
        if _host is None:
            print(level.name, message, *(f"{pair.key}={pair.value}" for pair in fields), file=sys.stderr)
        else:
            _call("log_log", level, message, fields)


class metrics:
    @staticmethod
    def counter(name: str, labels: list[types.Pair], add: float) -> None:
        _call("metrics_counter", name, labels, add)

    @staticmethod
    def gauge(name: str, labels: list[types.Pair], value: float) -> None:
        _call("metrics_gauge", name, labels, value)

    @staticmethod
    def histogram(name: str, labels: list[types.Pair], value: float) -> None:
        _call("metrics_histogram", name, labels, value)


class config:
    @staticmethod
    def get() -> str:
        return str(_call("config_get"))
