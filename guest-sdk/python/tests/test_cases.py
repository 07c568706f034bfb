"""Runs the specification of the fake cluster, `guest-sdk/testing/cases.json`. guest-sdk/testing/README.md describes its format."""

import json
import re
import unittest
from datetime import timedelta
from pathlib import Path

from pilothouse import (
    AlreadyExists,
    ApiError,
    Cache,
    Conflict,
    Denied,
    Forbidden,
    Invalid,
    NotFound,
    ObjectKey,
    OtherApiError,
    Plugin,
    Reason,
    Retry,
    Terminal,
    TooManyRequests,
    Unavailable,
    client,
    events,
    index,
    queue,
    testing,
    trigger,
)
from pilothouse.errors import Cause, Rule

TABLE = json.loads((Path(__file__).parents[2] / "testing" / "cases.json").read_text())
ALL = ("get", "list", "create", "update", "patch", "delete")


class CasesTest(unittest.TestCase):
    def test_every_case(self):
        for case in TABLE["cases"]:
            with self.subTest(case["name"]):
                Case(self).run(case["steps"])

    def test_the_plugin_is_that_of_the_table(self):
        self.assertEqual(Case(self).host.descriptor, TABLE["plugin"])


class Case:
    """One case: a host with the plugin of the table, and the variables."""

    def __init__(self, test):
        self.test = test
        self.variables = {}
        self.work = lambda request: None
        self.plugin = declare(lambda request: self.work(request))
        self.host = testing.Host(self.plugin)

    def run(self, steps):
        for position, step in enumerate(steps):
            step = self.filled(step)
            operation = next(iter(step))
            try:
                self.step(operation, step[operation], step)
            except AssertionError as error:
                raise AssertionError(f"step {position + 1}, {operation}: {error}") from None

    def step(self, operation, argument, step):
        of_test = getattr(self, f"test_{operation}", None)
        if of_test is not None:
            return self.expect(step.get("returns", {}), of_test(argument, step), "the result")
        result, error = self.in_plugin(lambda: getattr(self, f"plugin_{operation}")(argument, step))
        if "traps" in step:
            self.test.assertIsInstance(error, testing.Trap)
            self.test.assertIn(step["traps"], str(error))
        elif "error" in step:
            self.test.assertIsInstance(error, ApiError, f"it returned {result}")
            self.expect(step["error"], from_error(error), "the error")
        elif error is not None:
            raise AssertionError(f"it raised {error!r}")
        elif "returns" in step:
            self.expect(step["returns"], result, "the result")

    def in_plugin(self, function):
        outcome = []

        def work(_request):
            try:
                outcome.append((function(), None))
            except (ApiError, testing.Trap) as error:
                outcome.append((None, error))

        self.work = work
        self.host.reconcile("foos", ("a", "work"))
        return outcome[0]

    def filled(self, value):
        """Returns a step with the values of variables in its operation."""
        operation = next(iter(value))
        return {name: self.replaced(inner) if name == operation else inner for name, inner in value.items()}

    def replaced(self, value):
        if isinstance(value, dict):
            return {name: self.replaced(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.replaced(inner) for inner in value]
        return self.variables[value] if isinstance(value, str) and value.startswith("$") else value

    def expect(self, pattern, found, where):
        if isinstance(pattern, dict):
            if not isinstance(found, dict):
                raise AssertionError(f"{where} is {found!r}")
            for name, inner in pattern.items():
                self.expect(inner, found.get(name), f"{where}.{name}")
        elif isinstance(pattern, list):
            if not isinstance(found, list) or len(found) != len(pattern):
                raise AssertionError(f"{where} is {found!r}, not {pattern!r}")
            for position, inner in enumerate(pattern):
                self.expect(inner, found[position], f"{where}[{position}]")
        elif isinstance(pattern, str) and pattern.startswith("!"):
            other = self.variables.get(pattern[1:], pattern[1:])
            if not isinstance(found, str) or not found or found == other:
                raise AssertionError(f"{where} is {found!r}, not {pattern!r}")
        elif isinstance(pattern, str) and pattern.startswith("$"):
            if not isinstance(found, str) or self.variables.setdefault(pattern, found) != found:
                raise AssertionError(f"{where} is {found!r}, and {pattern} is {self.variables.get(pattern)!r}")
        elif type(pattern) is not type(found) or pattern != found:
            raise AssertionError(f"{where} is {found!r}, not {pattern!r}")

    # The operations of the test.

    def test_put(self, manifest, _):
        return self.host.add(manifest)

    def test_remove(self, ref, _):
        self.host.remove(*named(ref))
        return {}

    def test_stored(self, ref, step):
        found = self.host.get(*named(ref))
        return found if step["returns"] is not None or found is not None else None

    def test_fail(self, failure, _):
        self.host.fail(to_error(failure["error"]), verb=failure.get("verb", ""), kind=failure.get("kind", ""), times=failure.get("times", 1))
        return {}

    def test_reconcile(self, request, step):
        seen = []

        def work(received):
            seen.append(received)
            match step["answer"]:
                case {"requeueAfter": after}:
                    return timedelta(milliseconds=after)
                case {"retry": text}:
                    raise Retry(text)
                case {"terminal": text}:
                    raise Terminal(text)

        self.work = work
        arguments = {}
        if "reasons" in request:
            arguments = {"reasons": [Reason(reason) for reason in request["reasons"]], "attempt": request["attempt"]}
        try:
            outcome = self.host.reconcile(request["watch"], ObjectKey.parse(request["key"]), **arguments)
            result = {"done": True} if outcome is None else {"requeueAfter": outcome // timedelta(milliseconds=1)}
        except Retry as failure:
            result = {"retry": str(failure)}
        except Terminal as failure:
            result = {"terminal": str(failure)}
        sees = {"watch": seen[0].watch, "key": str(seen[0].key), "reasons": sorted(reason.value for reason in seen[0].reasons), "attempt": seen[0].attempt}
        self.expect(step.get("sees", {}), sees, "the request")
        return result

    def test_events(self, expected, _):
        found = [{"type": one.type, "reason": one.reason, "key": str(one.key), "note": one.note} for one in self.host.events]
        self.expect(expected, found, "the Events")
        return {}

    def test_queued(self, expected, _):
        found = [
            {"watch": watch, "key": str(key), "after": 0 if after is None else after // timedelta(milliseconds=1)}
            for watch, key, after in self.host.queued
        ]
        self.expect(expected, found, "the queue")
        return {}

    def test_writes(self, expected, _):
        self.expect(expected, self.host.writes, "the writes")
        return {}

    # The operations of the plugin.

    def plugin_create(self, manifest, step):
        return client.create(manifest, subresource=step.get("subresource", "")).json()

    def plugin_update(self, manifest, step):
        return client.update(manifest, subresource=step.get("subresource", "")).json()

    def plugin_patch(self, patch, step):
        return client.patch(*named(patch), patch["body"], form=patch["type"], subresource=step.get("subresource", "")).json()

    def plugin_apply(self, manifest, step):
        options = {"force": step.get("force", False), "field_manager": step.get("fieldManager", "")}
        return client.apply(manifest, subresource=step.get("subresource", ""), **options).json()

    def plugin_delete(self, ref, _):
        options = {"uid": ref.get("uid", ""), "resource_version": ref.get("resourceVersion", "")}
        client.delete(*named(ref), propagation=ref.get("propagation", "background"), **options)

    def plugin_get(self, ref, step):
        return client.get(*named(ref), subresource=step.get("subresource", "")).json()

    def plugin_list(self, options, _):
        rest = {name: options[name] for name in ("namespace", "labels", "fields", "limit", "cursor") if name in options}
        return page(client.page(options["apiVersion"], options["kind"], **rest))

    def plugin_cacheGet(self, ref, _):
        found = self.watch(ref).get(ObjectKey.parse(ref["key"]))
        return found and found.json()

    def plugin_cacheList(self, options, _):
        return page(self.watch(options).page(**rest_of(options, "watch")))

    def plugin_cacheFields(self, options, _):
        rows = self.watch(options).list_fields(options["pointers"], **rest_of(options, "watch", "pointers"))
        return [{"key": str(row.key), "values": row.values} for row in rows]

    def plugin_byIndex(self, of, _):
        return [str(found.key) for found in self.watch(of).by_index(of["index"], of["value"])]

    def plugin_indexKeys(self, of, _):
        return [str(key) for key in self.watch(of).index_keys(of["index"], of["value"])]

    def plugin_indexValues(self, of, _):
        return list(self.watch(of).index_values(of["index"]))

    def plugin_queueAdd(self, work, _):
        after = timedelta(milliseconds=work["after"]) if "after" in work else None
        queue.add(work["watch"], ObjectKey.parse(work["key"]), after=after)

    def plugin_publish(self, event, _):
        record = events.warning if event["type"] == "warning" else events.normal
        about = self.watch(event).get(ObjectKey.parse(event["key"]))
        record(about, event["reason"], event["action"], event["note"])

    def watch(self, ref):
        # Not one of the plugin's watches, because the name may be unknown.
        return Cache(ref["watch"])


def declare(reconcile):
    """Returns the plugin of the table."""
    plugin = Plugin("cases", "0.1.0")
    foos = plugin.watch("foos", "example.com/v1", "Foo", trigger=trigger.ITSELF)
    indexes = {
        "byApp": index.label("app"),
        "byTeam": index.annotation("example.com/team"),
        "byMode": index.field("{.data.mode}"),
        "byOwner": index.owner(),
        "byWord": index.computed(),
    }
    plugin.watch("maps", "v1", "ConfigMap", indexes=indexes)
    plugin.watch("blue", "v1", "ConfigMap", namespaces=["a", "b"], labels="team=blue")
    plugin.watch("named", "v1", "ConfigMap", fields="metadata.name=settings", metadata_only=True)
    indexes = {
        "byImage": index.field("{.spec.containers[*].image}"),
        "byZone": index.field("{.metadata.labels['example.com/zone']}"),
        "byFirst": index.field("{.spec.containers[0].name}"),
    }
    plugin.watch("pods", "v1", "Pod", indexes=indexes)
    for rule in TABLE["plugin"]["writes"]:
        plugin.writes(rule["apiGroups"][0], " ".join(rule["resources"]), *rule["verbs"], namespaces=rule.get("namespaces", ()))
    for crd in TABLE["plugin"]["crds"]:
        plugin.crd(crd)
    plugin.reconcile(foos)(reconcile)
    plugin.index("byWord")(lambda found: re.findall(r"\w+", found.text("/data/words") or ""))
    return plugin


def named(ref):
    return ref["apiVersion"], ref["kind"], ObjectKey.parse(ref["key"])


def rest_of(options, *names):
    return {name: value for name, value in options.items() if name not in names}


def page(found):
    return {"keys": [str(item.key) for item in found.items], "next": found.next or ""}


CODES = {
    NotFound: "not-found",
    AlreadyExists: "already-exists",
    Conflict: "conflict",
    Invalid: "invalid",
    Forbidden: "forbidden",
    Denied: "denied",
    TooManyRequests: "too-many-requests",
    Unavailable: "unavailable",
    OtherApiError: "other",
}


def from_error(error):
    found = {"code": CODES[type(error)], "message": str(error)}
    match error:
        case Conflict():
            found["resourceVersion"] = error.resource_version or ""
        case Invalid():
            found["causes"] = [vars(cause) for cause in error.causes]
        case Denied():
            rule = error.rule
            found["rule"] = {
                "apiGroups": rule.api_groups,
                "resources": rule.resources,
                "verbs": rule.verbs,
                "namespaces": rule.namespaces,
            }
        case TooManyRequests():
            found["retryAfter"] = error.retry_after // timedelta(milliseconds=1)
        case OtherApiError():
            found |= {"status": error.code, "reason": error.reason}
    return found


def to_error(error):
    message = error.get("message", "")
    match error["code"]:
        case "conflict":
            return Conflict(message, error.get("resourceVersion"))
        case "invalid":
            return Invalid([Cause(**cause) for cause in error["causes"]])
        case "denied":
            rule = error["rule"]
            return Denied(Rule(rule["apiGroups"], rule["resources"], rule["verbs"], rule["namespaces"]))
        case "too-many-requests":
            return TooManyRequests(timedelta(milliseconds=error["retryAfter"]))
        case "other":
            return OtherApiError(error["status"], error["reason"], message)
    kind = next(kind for kind, code in CODES.items() if code == error["code"])
    return kind(message)


if __name__ == "__main__":
    unittest.main()
