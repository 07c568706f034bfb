"""The operations of scripts, one function each."""

import json
from collections.abc import Callable
from datetime import timedelta

from pilothouse import (
    AlreadyExists,
    ApiError,
    Cache,
    Conflict,
    Denied,
    Forbidden,
    Invalid,
    NotFound,
    Object,
    ObjectKey,
    OtherApiError,
    Outcome,
    Page,
    Reason,
    Retry,
    Terminal,
    TooManyRequests,
    Unavailable,
    client,
    events,
    finalizer,
    log,
    metrics,
    queue,
)

from script import Script

Operation = Callable[[Script], Outcome]

ALL: dict[str, Operation] = {}

MILLISECOND = timedelta(milliseconds=1)
FINALIZER = "acceptance.pilothouse.dev/cleanup"


def operation(name: str):
    """Registers an operation that logs its own value and determines the outcome."""

    def register(function: Operation) -> Operation:
        ALL[name] = function
        return function

    return register


def value(name: str):
    """Registers an operation that returns the value to log. An error of the client becomes the value."""

    def register(function: Callable[[Script], object]):
        def run(script: Script) -> None:
            try:
                found = function(script)
            except ApiError as error:
                found = name_of(error)
            script.result(found)

        ALL[name] = run
        return function

    return register


def name_of(error: ApiError) -> str:
    match error:
        case NotFound():
            return "not-found"
        case AlreadyExists():
            return "already-exists"
        case Conflict():
            return "conflict"
        case Invalid(causes=[first, *_]):
            return f"invalid:{first.field}"
        case Forbidden():
            return "forbidden"
        case Denied(rule=rule):
            return f"denied:{rule.verbs[0]} {rule.resources[0]}"
        case TooManyRequests(retry_after=after):
            return f"too-many-requests:{after // MILLISECOND}"
        case Unavailable():
            return "unavailable"
        case OtherApiError(code=code):
            return f"other:{code}"
    raise error


def or_else(text: str | None, without: str = "-") -> str:
    return without if text is None else text


def keys(objects) -> str:
    return " ".join(str(found if isinstance(found, ObjectKey) else found.key) for found in objects)


# Outcomes


@value("info")
def info(script: Script) -> str:
    request = script.request
    return f"{request.watch} {request.key} attempt={request.attempt} reasons={','.join(sorted(request.reasons))}"


@operation("requeue")
def requeue(script: Script) -> Outcome:
    if Reason.REQUEUE not in script.request.reasons:
        return int(script.a) * MILLISECOND
    script.result("requeued")


@operation("retry")
def retry(script: Script) -> Outcome:
    attempt = script.request.attempt
    if attempt < int(script.a):
        raise Retry(f"attempt {attempt} of {script.a}")
    script.result(f"attempt={attempt}")


@operation("terminal")
def terminal(script: Script) -> Outcome:
    raise Terminal(script.a)


@value("trap")
def trap(script: Script) -> str:
    if script.is_first_attempt:
        raise RuntimeError(script.a)
    return "recovered"


@value("loop")
def loop(script: Script) -> str:
    while script.is_first_attempt:
        pass
    return "recovered"


@value("allocate")
def allocate(script: Script) -> str:
    held = []
    while script.is_first_attempt:
        held.append(bytearray(1 << 20))
    return "recovered"


@operation("finalizer")
def hold(script: Script) -> Outcome:
    return finalizer.run(
        script.object,
        FINALIZER,
        apply=lambda _: script.result("held"),
        cleanup=lambda _: script.result("cleaned"),
    )


# Reads of the watches


def found_by(script: Script) -> Object | None:
    return Cache(script.a).get((script.b, script.c))


@value("get")
def get(script: Script) -> str:
    found = found_by(script)
    return "none" if found is None else or_else(found.text(script.d), "absent")


@value("json-length")
def json_length(script: Script) -> object:
    found = found_by(script)
    return "none" if found is None else len(found.raw().encode())


@value("object")
def every_method(script: Script) -> str:
    found = found_by(script)
    if found is None:
        return "none"
    controller = found.controller
    several = "/data/value", "/data/nothing", "/kind"
    lines = {
        "key": found.key,
        "api-version": found.api_version,
        "kind": found.kind,
        "uid": "set" if found.uid else "",
        "resource-version": "set" if found.resource_version else "",
        "generation": found.generation,
        "labels": ",".join(f"{key}={label}" for key, label in found.labels.items()),
        "label": or_else(found.label("tier")),
        "annotation": or_else(found.annotation("note")),
        "deletion-timestamp": "set" if found.is_being_deleted else "-",
        "controller": f"{controller.kind}/{controller.name}" if controller else "-",
        "field": or_else(found.raw("/data/value")),
        "text": or_else(found.text("/data/value")),
        "fields": ",".join(as_json(value) for value in found.fields(*several)),
        "texts": ",".join(or_else(text) for text in found.texts(*several)),
    }
    return "\n".join(f"{name}={line}" for name, line in lines.items())


@value("list")
def list_pages(script: Script) -> str:
    def read(cursor: str) -> Page:
        return Cache(script.a).page(namespace=script.b, labels=script.c, limit=int(script.d), cursor=cursor)

    return pages(read)


def pages(read: Callable[[str], Page]) -> str:
    found, cursor = [], ""
    while cursor is not None:
        page = read(cursor)
        found.append(keys(page.items))
        cursor = page.next
    return " | ".join(found)


@value("list-fields")
def list_fields(script: Script) -> str:
    rows = Cache(script.a).list_fields([script.d], namespace=script.b, labels=script.c)
    return " ".join(f"{row.key}={as_json(row.values[0])}" for row in rows)


def as_json(field: object) -> str:
    return "-" if field is None else json.dumps(field, ensure_ascii=False)


@value("by-index")
def by_index(script: Script) -> str:
    return keys(Cache(script.a).by_index(script.b, script.c))


@value("index-keys")
def index_keys(script: Script) -> str:
    return keys(Cache(script.a).index_keys(script.b, script.c))


@value("index-values")
def index_values(script: Script) -> str:
    return " ".join(Cache(script.a).index_values(script.b))


@value("has-synced")
def has_synced(script: Script) -> str:
    return str(Cache(script.a).has_synced).lower()


@value("unknown-watch")
def unknown_watch(script: Script) -> str:
    if script.is_first_attempt:
        Cache("nonesuch").get(("", "whatever"))
    return "recovered"


@value("own-write")
def own_write(script: Script) -> str:
    key = script.request.key.sibling(script.a)
    client.patch("v1", "ConfigMap", key, {"data": {"value": script.b}})
    found = Cache("items").get(key)
    return "none" if found is None else or_else(found.text("/data/value"), "absent")


# Requests


@value("client-get")
def client_get(script: Script) -> str:
    found = client.get(script.a, script.b, (script.c, script.d), subresource=script.e)
    return or_else(found.text(script.f), "absent")


@value("client-list")
def client_list(script: Script) -> str:
    selectors = {"namespace": script.c, "labels": script.d, "fields": script.e}

    def read(cursor: str) -> Page:
        return client.page(script.a, script.b, **selectors, limit=int(script.f), cursor=cursor)

    return pages(read)


@value("create")
def create(script: Script) -> str:
    return client.create(json.loads(script.body), subresource=script.a).name


@value("update")
def update(script: Script) -> str:
    return client.update(json.loads(script.body), subresource=script.a).name


@value("patch")
def patch(script: Script) -> str:
    body = json.loads(script.body)
    if script.e.startswith("apply"):
        # A script's body may omit what other arguments specify.
        metadata = {**body.get("metadata", {}), "namespace": script.c, "name": script.d}
        body = {**body, "apiVersion": script.a, "kind": script.b, "metadata": metadata}
        return client.apply(body, force=script.e == "apply-force", subresource=script.f).name
    return client.patch(script.a, script.b, (script.c, script.d), body, form=script.e, subresource=script.f).name


@value("delete")
def delete(script: Script) -> str:
    client.delete(
        script.a,
        script.b,
        (script.c, script.d),
        propagation=script.e or "background",
        uid=script.f,
        resource_version=script.g,
    )
    return "deleted"


@value("denied")
def denied(script: Script) -> str:
    metadata = {"namespace": script.request.key.namespace, "name": "denied"}
    return client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}).name


# Effects


@value("add")
def add(script: Script) -> str:
    queue.add(script.a, (script.b, script.c))
    return "added"


@value("add-after")
def add_after(script: Script) -> str:
    queue.add(script.a, (script.b, script.c), after=int(script.d) * MILLISECOND)
    return "added"


@value("event")
def event(script: Script) -> str:
    publish = {"normal": events.normal, "warning": events.warning}[script.a]
    publish(script.object, script.b, script.c, script.d)
    return "published"


@value("counter")
def counter(script: Script) -> str:
    metrics.counter(script.a, float(script.d), {script.b: script.c})
    return "recorded"


@value("gauge")
def gauge(script: Script) -> str:
    metrics.gauge(script.a, float(script.d), {script.b: script.c})
    return "recorded"


@value("histogram")
def histogram(script: Script) -> str:
    metrics.histogram(script.a, float(script.d), {script.b: script.c})
    return "recorded"


@value("log")
def write(script: Script) -> str:
    level = {"debug": log.debug, "info": log.info, "warn": log.warn, "error": log.error}[script.a]
    level(script.b, **{script.c: script.d})
    return "logged"
