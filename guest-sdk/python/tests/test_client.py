"""Requests, their errors, and the helpers that combine requests."""

import json
import unittest
from datetime import UTC, datetime, timedelta

from pilothouse import (
    AlreadyExists,
    Conflict,
    Denied,
    Forbidden,
    Invalid,
    NotFound,
    ObjectKey,
    OtherApiError,
    Plugin,
    Retry,
    TooManyRequests,
    Unavailable,
    client,
    conditions,
    finalizer,
    owner,
    testing,
    trigger,
)
from pilothouse._duration import milliseconds, text
from pilothouse._standin import client as wit
from pilothouse._standin import types
from pilothouse.errors import from_wit

KEY = ("default", "web")


def config_map(name="web", value="1", **metadata):
    metadata = {"namespace": "default", "name": name, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


def foo(name, **fields):
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"namespace": "default", "name": name}, **fields}


class ClientCase(unittest.TestCase):
    def setUp(self):
        self.plugin = Plugin("test", "1")
        self.maps = self.plugin.watch("maps", "v1", "ConfigMap", trigger=trigger.ITSELF)
        self.foos = self.plugin.watch("foos", "example.com/v1", "Foo")
        self.plugin.writes("", "configmaps", "get", "list", "create", "update", "patch", "delete")
        self.plugin.writes("example.com", "foos foos/status", "update", "patch")
        self.plugin.reconcile("maps")(lambda request: self.work(request))
        self.host = testing.Host(self.plugin)

    def run_in_plugin(self, work):
        """Runs something as a reconcile, and answers what it returned or raised."""
        done = []

        def kept(request):
            try:
                done.append(work(request))
            except Exception as error:
                done.append(error)

        self.work = kept
        self.host.reconcile("maps", KEY)
        return done[0]


class VerbsTest(ClientCase):
    def test_a_write_is_visible_immediately(self):
        def work(request):
            made = client.create(config_map())
            self.assertEqual((made.key, made.text("/data/value")), (KEY, "1"))
            client.patch("v1", "ConfigMap", KEY, {"data": {"value": "2"}})
            self.assertEqual(self.maps.get(KEY).text("/data/value"), "2")
            changed = client.get("v1", "ConfigMap", KEY).json()
            changed["data"]["value"] = "3"
            client.update(changed)
            self.assertEqual([found.name for found in client.list("v1", "ConfigMap", namespace="default")], ["web"])
            client.delete("v1", "ConfigMap", KEY, uid=made.uid)
            return self.maps.get(KEY)

        self.assertIsNone(self.run_in_plugin(work))
        self.assertEqual([write.split()[0] for write in self.host.writes], ["create", "patch", "update", "delete"])

    def test_apply_creates_the_object_and_omits_forbidden_metadata(self):
        def work(request):
            client.apply(config_map(resourceVersion="999", managedFields=[{}]), force=True)
            found = client.apply({**config_map(value="2")})
            return found.json()

        applied = self.run_in_plugin(work)
        self.assertEqual(applied["data"], {"value": "2"})
        self.assertNotIn("managedFields", applied["metadata"])

    def test_update_status_writes_only_the_status(self):
        stored = self.host.add(foo("f", spec={"value": "1"}))
        status = {"ready": True}
        self.run_in_plugin(lambda request: client.update_status({**stored, "spec": {"value": "other"}, "status": status}))
        stored = self.host.get("example.com/v1", "Foo", ("default", "f"))
        self.assertEqual((stored["spec"], stored["status"]), ({"value": "1"}, status))

    def test_lists_are_read_page_by_page(self):
        for number in range(5):
            self.host.add(config_map(f"m{number}", labels={"even": str(number % 2 == 0)}))

        def work(request):
            first = self.maps.page(limit=2)
            second = self.maps.page(limit=2, cursor=first.next)
            live = client.list("v1", "ConfigMap", labels="even in (True)", page_size=1)
            rows = self.maps.list_fields(["/data/value", "/data/none"], labels="even!=True")
            return [found.name for found in [*first.items, *second.items]], [found.name for found in live], rows

        cached, live, rows = self.run_in_plugin(work)
        self.assertEqual((cached, live), (["m0", "m1", "m2", "m3"], ["m0", "m2", "m4"]))
        self.assertEqual(rows, [(("default", "m1"), ["1", None]), (("default", "m3"), ["1", None])])

    def test_a_patch_of_an_unknown_form_raises(self):
        error = self.run_in_plugin(lambda request: client.patch("v1", "ConfigMap", KEY, {}, form="apply"))
        self.assertIn("merge, json, strategic", str(error))


class ErrorsTest(ClientCase):
    def test_the_fake_server_rejects_what_a_server_rejects(self):
        self.host.add(config_map())
        stale = config_map(resourceVersion="0")
        for work, kind in [
            (lambda request: client.get("v1", "ConfigMap", ("default", "none")), NotFound),
            (lambda request: client.create(config_map()), AlreadyExists),
            (lambda request: client.update(stale), Conflict),
            (lambda request: client.delete("v1", "ConfigMap", KEY, uid="another"), Conflict),
            (lambda request: client.create({**config_map(), "kind": "Secret"}), Denied),
        ]:
            self.assertIsInstance(self.run_in_plugin(work), kind)

    def test_every_error_of_the_contract_has_its_exception(self):
        rule = types.Rule([""], ["configmaps"], ["delete"], ["default"])
        causes = [types.Cause("spec.replicas", "Invalid", "too many"), types.Cause("", "Invalid", "bad")]
        for error, kind, text in [
            (types.ApiError_NotFound("x"), NotFound, "not found: x"),
            (types.ApiError_AlreadyExists("x"), AlreadyExists, "already exists: x"),
            (types.ApiError_Conflict(types.ConflictInfo("changed", "")), Conflict, "conflict: changed"),
            (types.ApiError_Invalid(causes), Invalid, "invalid: spec.replicas: too many; bad"),
            (types.ApiError_Forbidden("x"), Forbidden, "forbidden: x"),
            (types.ApiError_Denied(rule), Denied, "need delete on configmaps of the core group in default"),
            (types.ApiError_TooManyRequests(1500), TooManyRequests, "try again in 1.5 s"),
            (types.ApiError_Unavailable("x"), Unavailable, "unavailable: x"),
            (types.ApiError_Other(types.HttpStatus(500, "InternalError", "x")), OtherApiError, "500 InternalError: x"),
        ]:
            made = from_wit(error)
            self.assertIs(type(made), kind)
            self.assertIn(text, str(made))
        self.assertIsNone(from_wit(types.ApiError_Conflict(types.ConflictInfo("changed", ""))).resource_version)
        self.assertEqual(from_wit(types.ApiError_TooManyRequests(1500)).retry_after, timedelta(seconds=1.5))


class UpsertTest(ClientCase):
    def wants(self, value):
        def mutate(manifest):
            manifest["data"]["value"] = value

        def work(request):
            return client.create_or_update(self.maps.get(KEY), lambda: config_map(value="start"), mutate)

        return self.run_in_plugin(work)

    def test_absent_is_created_different_is_updated_equal_is_unchanged(self):
        self.assertEqual(self.wants("fast")[1], client.Change.CREATED)
        self.host.writes.clear()
        self.assertEqual(self.wants("fast")[1], client.Change.UNCHANGED)
        self.assertEqual(self.host.writes, [])
        manifest, change = self.wants("slow")
        self.assertEqual((manifest["data"], change), ({"value": "slow"}, client.Change.UPDATED))

    def test_the_callers_manifest_is_not_changed(self):
        present = self.host.add(config_map())
        given = json.loads(json.dumps(present))
        self.run_in_plugin(
            lambda request: client.create_or_update(given, dict, lambda manifest: manifest["data"].clear())
        )
        self.assertEqual(given, present)


class RetryTest(unittest.TestCase):
    def test_a_conflict_is_tried_five_times_and_any_other_error_once(self):
        for error, attempts in [(Conflict("changed"), 5), (NotFound("gone"), 1)]:
            made = []

            def attempt(error=error, made=made):
                made.append(1)
                raise error

            with self.assertRaises(type(error)):
                client.retry_on_conflict(attempt)
            self.assertEqual(len(made), attempts)

    def test_the_first_success_ends_the_retries(self):
        answers = iter([Conflict("changed"), Conflict("changed"), None])
        made = []

        def attempt():
            made.append(1)
            if error := next(answers):
                raise error
            return "done"

        self.assertEqual((client.retry_on_conflict(attempt), len(made)), ("done", 3))


class OwnerTest(unittest.TestCase):
    def test_a_controller_reference_has_kind_name_uid_and_controller(self):
        self.assertEqual(
            owner.controller_owner_ref(config_map(uid="u1")),
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": "u1", "controller": True, "blockOwnerDeletion": True},
        )
        with self.assertRaisesRegex(ValueError, "was it read from the server"):
            owner.controller_owner_ref(config_map())

    def test_control_is_determined_by_uid_and_a_second_controller_is_rejected(self):
        owned = config_map("owned")
        self.assertFalse(owner.is_controlled_by(owned, config_map()))
        owner.set_controller(owned, config_map(uid="u1"))
        owner.set_controller(owned, config_map(uid="u1"))
        self.assertEqual(len(owned["metadata"]["ownerReferences"]), 1)
        owned["metadata"]["ownerReferences"].append({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u9"})
        before = [dict(one) for one in owned["metadata"]["ownerReferences"]]
        owner.set_controller(owned, config_map(uid="u1"))
        self.assertEqual(owned["metadata"]["ownerReferences"], before, "the order of the references stays")
        self.assertTrue(owner.is_controlled_by(owned, config_map(uid="u1")))
        self.assertFalse(owner.is_controlled_by(owned, config_map(uid="u2")))
        with self.assertRaisesRegex(Retry, "default/owned is already controlled by ConfigMap web"):
            owner.set_controller(owned, config_map(uid="u2"))


class FinalizerTest(ClientCase):
    NAME = "example.com/cleanup"

    def run_finalizer(self):
        done = []

        def work(request):
            found = self.maps.get(KEY)
            apply, cleanup = (lambda _: done.append("apply")), (lambda _: done.append("cleanup"))
            return found and finalizer.run(found, self.NAME, apply=apply, cleanup=cleanup)

        self.assertIsNone(self.run_in_plugin(work))
        return done

    def finalizers(self):
        found = self.host.get("v1", "ConfigMap", KEY)
        return found and found["metadata"].get("finalizers")

    def test_the_finalizer_is_added_before_the_work_and_removed_after_the_cleanup(self):
        self.host.add(config_map(finalizers=["other"]))
        self.assertEqual(self.run_finalizer(), ["apply"])
        self.assertEqual(self.finalizers(), ["other", self.NAME])
        self.host.remove("v1", "ConfigMap", KEY)
        self.assertEqual(self.run_finalizer(), ["cleanup"])
        self.assertEqual(self.finalizers(), ["other"])
        self.assertEqual(self.run_finalizer(), [], "nothing may be started any more")

    def test_removing_the_last_finalizer_deletes_the_object(self):
        self.host.add(config_map())
        self.run_finalizer()
        self.host.remove("v1", "ConfigMap", KEY)
        self.run_finalizer()
        self.assertIsNone(self.host.get("v1", "ConfigMap", KEY))

    def test_the_resource_version_protects_other_finalizers(self):
        self.host.add(config_map())

        def work(request):
            found = self.maps.get(KEY)
            self.host.add(config_map(finalizers=["theirs"]))
            finalizer.run(found, self.NAME, apply=lambda _: None, cleanup=lambda _: None)

        self.assertIsInstance(self.run_in_plugin(work), Conflict)
        self.assertEqual(self.finalizers(), ["theirs"])

    def test_the_work_receives_the_object_with_its_finalizer_and_can_update_its_status(self):
        def apply(given):
            manifest = given if isinstance(given, dict) else given.json()
            self.assertEqual(manifest["metadata"]["finalizers"], [self.NAME])
            return client.update_status({**manifest, "status": {"ready": True}}).json()["status"]

        for number, read in enumerate((lambda found: found, lambda found: found.json())):
            key = ("default", f"f{number}")
            self.host.add(foo(key[1]))
            ready = self.run_in_plugin(
                lambda request, key=key, read=read: finalizer.run(
                    read(self.foos.get(key)), self.NAME, apply=apply, cleanup=self.fail
                )
            )
            self.assertEqual(ready, {"ready": True})

    def test_the_cleanup_receives_the_object(self):
        self.host.add(config_map(finalizers=[self.NAME]))
        self.host.remove("v1", "ConfigMap", KEY)
        values = []
        self.run_in_plugin(
            lambda request: finalizer.run(
                self.maps.get(KEY),
                self.NAME,
                apply=self.fail,
                cleanup=lambda found: values.append(found.text("/data/value")),
            )
        )
        self.assertEqual(values, ["1"])


class ConditionsTest(unittest.TestCase):
    def test_the_transition_time_changes_only_with_the_status(self):
        def ready(status, message):
            return conditions.condition("Ready", status, "Checked", message, observed_generation=1)

        def at(second):
            return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)

        held = []
        self.assertTrue(conditions.set_condition(held, ready(False, "starting"), now=at(10)))
        self.assertTrue(conditions.set_condition(held, ready(False, "still"), now=at(20)))
        self.assertEqual(held[0]["lastTransitionTime"], "2026-01-01T00:00:10Z")
        self.assertFalse(conditions.set_condition(held, ready(False, "still"), now=at(25)))
        self.assertTrue(conditions.set_condition(held, ready(True, "up"), now=at(30)))
        self.assertEqual(held[0]["lastTransitionTime"], "2026-01-01T00:00:30Z")
        self.assertTrue(conditions.is_true(held, "Ready"))
        self.assertFalse(conditions.is_true(held, "Progressing"))
        self.assertTrue(conditions.remove(held, "Ready"))
        self.assertFalse(conditions.remove(held, "Ready"))
        self.assertIsNone(conditions.find(held, "Ready"))


class UnitsTest(unittest.TestCase):
    def test_durations_are_milliseconds_rounded_up_and_bounded(self):
        self.assertEqual(milliseconds(timedelta(0)), 0)
        self.assertEqual(milliseconds(timedelta(microseconds=1)), 1)
        self.assertEqual(milliseconds(timedelta(seconds=-1)), 0)
        self.assertEqual(milliseconds(timedelta(days=1000)), 2_147_483_647)
        self.assertEqual((text(timedelta(seconds=10)), text(timedelta(milliseconds=1500))), ("10s", "1500ms"))

    def test_keys_are_displayed_as_in_kubernetes(self):
        self.assertEqual((str(ObjectKey("default", "web")), str(ObjectKey("", "node"))), ("default/web", "node"))
        self.assertEqual(ObjectKey.parse("default/web"), ("default", "web"))
        self.assertEqual(ObjectKey.parse("node"), ("", "node"))
        self.assertEqual(ObjectKey.of({"metadata": {"generateName": "x-"}}), ("", ""))

    def test_delete_options_are_converted(self):
        sent = []
        host = testing.Host(Plugin("empty", "1"))
        host.client_delete = lambda target, key, options: sent.append(options)
        with testing._Active(host):
            client.delete("v1", "ConfigMap", KEY, propagation="foreground", resource_version="7")
        self.assertEqual(sent, [wit.DeleteOptions(wit.Propagation.FOREGROUND, "", "7")])


if __name__ == "__main__":
    unittest.main()
