"""Unit tests of proxy.py: `python3 -m unittest test_proxy` in this folder."""

import unittest

from proxy import Labels, World, holds, is_of_plugin, is_protected, is_reproduced_write, lookup, matches, parse_request


class Requests(unittest.TestCase):
    def test_requests_for_objects_are_parsed_and_others_are_not(self):
        cases = [
            ("GET", "/api/v1/pods?watch=true", ("watch", "pods", "", "", "")),
            ("GET", "/api/v1/namespaces/a/pods?limit=5", ("list", "pods", "", "a", "")),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", ("create", "deployments.apps", "", "a", "")),
            ("PUT", "/apis/apps/v1/namespaces/a/deployments/d/status", ("update", "deployments.apps", "status", "a", "d")),
            ("DELETE", "/api/v1/namespaces/a", ("delete", "namespaces", "", "", "a")),
            ("PUT", "/api/v1/namespaces/a/finalize", ("update", "namespaces", "finalize", "", "a")),
            ("DELETE", "/api/v1/namespaces/a/pods", ("deletecollection", "pods", "", "a", "")),
        ]
        for method, target, expected in cases:
            self.assertEqual(parse_request(method, target)[:5], expected, target)
        for target in ("/version", "/apis/apps/v1", "/openapi/v3"):
            self.assertIsNone(parse_request("GET", target), target)

    def test_requests_of_the_host_do_not_count(self):
        def is_counted(method, target, relisting=()):
            return is_of_plugin(parse_request(method, target), relisting)

        self.assertTrue(is_counted("POST", "/api/v1/namespaces/a/pods?fieldManager=zoo"))
        self.assertTrue(is_counted("DELETE", "/api/v1/namespaces/a/pods/b"))
        self.assertTrue(is_counted("GET", "/api/v1/pods?limit=500"))
        self.assertFalse(is_counted("GET", "/api/v1/pods?resourceVersion=0"))
        self.assertFalse(is_counted("GET", "/api/v1/pods?limit=500", {"pods"}))
        self.assertFalse(is_counted("POST", "/apis/events.k8s.io/v1/namespaces/a/events?fieldManager=zoo"))
        self.assertFalse(is_counted("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"))
        crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/zoos.example.com"
        self.assertFalse(is_counted("PATCH", f"{crd}?fieldManager=pilothouse-crds"))


class Values(unittest.TestCase):
    def test_an_object_may_have_more_members_than_expected_but_no_other_values(self):
        self.assertTrue(matches({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "x", "c": 2}], "d": None}))
        self.assertFalse(matches({"a": [1, 2]}, {"a": [1]}))
        self.assertFalse(matches({"a": 1}, {"a": 2}))
        self.assertFalse(matches({"a": {}}, {}))
        self.assertFalse(matches("1.2", "1x2"))

    def test_times_uids_addresses_and_generated_names_may_be_any(self):
        self.assertTrue(matches("<time>", "2026-01-01T00:00:00Z"))
        self.assertTrue(matches("owner <uid of zoos.example.com a/b>", "owner 1234"))
        self.assertFalse(matches("owner <uid of zoos.example.com a/b>", "other 1234"))
        self.assertTrue(matches("web-*", "web-x7"))
        self.assertFalse(matches("web-*", "app-x7"))
        self.assertTrue(matches("10.0.0.1", "10.96.3.4"))
        self.assertTrue(matches("<generation>", 3))

    def test_pointers_are_followed(self):
        value = {"a": [{"b/c": 1}]}
        self.assertEqual(lookup(value, "/a/0/b~1c"), [1])
        self.assertEqual(lookup(value, "/a/1"), [])
        self.assertEqual(lookup(value, "/x/y"), [])

    def test_facts_hold_for_the_objects_that_are_there(self):
        item = {"spec": {"replicas": 2}, "status": {}}
        self.assertTrue(holds({"count": 0}, []))
        self.assertFalse(holds({"count": 0}, [item]))
        self.assertTrue(holds({"pointer": "/spec/replicas", "equals": 2}, [item]))
        self.assertFalse(holds({"pointer": "/spec/replicas", "equals": 3}, [item]))
        self.assertFalse(holds({"pointer": "/spec/replicas", "equals": 2}, []))
        self.assertTrue(holds({"pointer": "/status", "absent": True}, [item]))
        self.assertFalse(holds({"pointer": "/spec", "absent": True}, [item]))
        self.assertFalse(holds({"pointer": "/spec", "absent": True}, []))


def item(name, uid, version, **metadata):
    return {"metadata": {"namespace": "a", "name": name, "uid": uid, "resourceVersion": version, **metadata}}


class Protection(unittest.TestCase):
    def test_an_object_that_only_the_server_keeps_is_protected(self):
        deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        self.assertTrue(is_protected({**deleted, "finalizers": ["kubernetes.io/pvc-protection"]}))
        self.assertFalse(is_protected({**deleted, "finalizers": ["kubernetes.io/pvc-protection", "example.com/mine"]}))
        self.assertFalse(is_protected(deleted))
        self.assertFalse(is_protected({"finalizers": ["kubernetes.io/pvc-protection"]}))


class Names(unittest.TestCase):
    def test_objects_are_numbered_in_the_order_of_their_creation(self):
        labels = Labels([["runs", "run-"]])
        self.assertEqual(labels.add("pods", item("p", "u1", "1")), "pods a/p#1")
        self.assertEqual(labels.add("pods", item("p", "u1", "2")), "pods a/p#1")
        self.assertEqual(labels.add("pods", item("p", "u2", "5")), "pods a/p#2")
        self.assertEqual(labels.add("pods", item("web-x7", "u3", "6", generateName="web-")), "pods a/web-*#1")
        self.assertEqual(labels.add("runs", item("run-abcdef", "u4", "7")), "runs a/run-*#1")
        self.assertEqual(labels.label("pods", "a", "p"), "pods a/p#2")
        self.assertEqual(labels.created, {})
        labels.add("pods", item("p", "u2", "8"), created=True)
        self.assertEqual(labels.created, {"u2": ("pods", "a", "p")}, "only these are deleted at the end")
        resolved = labels.resolve({"${name:pods a/web-*#1}": ["uid ${uid:pods a/p#1}", 3]})
        self.assertEqual(resolved, {"web-x7": ["uid u1", 3]})
        with self.assertRaises(KeyError):
            labels.resolve("${uid:pods a/q#1}")

    def test_a_generated_name_may_begin_with_another_one(self):
        labels = Labels([])
        self.assertEqual(labels.add("sets", item("web-x7", "u1", "1", generateName="web-")), "sets a/web-*#1")
        nested = item("web-x7-k9", "u2", "2", generateName="web-x7-")
        self.assertEqual(labels.add("pods", nested), "pods a/web-*-*#1")
        self.assertEqual(labels.canonical("pods", "a", "web-x7-k9", nested), "pods a/web-*-*")
        self.assertEqual(labels.resolve("${name:pods a/web-*-*#1} of ${name:sets a/web-*#1}"), "web-x7-k9 of web-x7")

    def test_a_text_of_an_object_that_looks_like_a_placeholder_is_kept(self):
        labels = Labels([])
        labels.add("pods", item("p", "u1", "1"))
        self.assertEqual(labels.resolve("${text:$}{name:-default} ${text:$}{uid:${uid:pods a/p#1}}"), "${name:-default} ${uid:u1}")


class Writes(unittest.TestCase):
    def test_a_write_counts_if_it_changes_the_object(self):
        world = World({"randomPrefixes": []})
        about = ("update", "pods", "status", "a", "p", {})
        world.record(about, 200, item("p", "u1", "7"), 6)
        world.record(about, 200, item("p", "u1", "7"), 7)
        world.record(about, 409, {"kind": "Status"}, 7)
        world.record(("delete", "pods", "", "a", "p", {}), 200, {"kind": "Status", "details": {"uid": "u1"}}, 7)
        self.assertEqual([write["changed"] for write in world.writes], [True, False, False, True])
        self.assertEqual({write["object"] for write in world.writes}, {"pods a/p#1"})
        self.assertEqual((world.writes[0]["resource"], world.effective), ("pods/status", 2))


class Verdict(unittest.TestCase):
    expected = {"verb": "delete", "resource": "pods", "object": "pods a/p#2", "occurrence": 1, "entries": 3, "facts": {}}

    def judge(self, expected, **changes):
        write = {"verb": "delete", "resource": "pods", "object": "pods a/p#2", "status": 200, "changed": True, "cursor": 3, "item": {}}
        return is_reproduced_write({**self.expected, **expected}, [{**write, **changes}], Labels([]))

    def test_the_same_write_at_the_same_point_reproduces_a_finding(self):
        self.assertTrue(self.judge({}))

    def test_other_writes_do_not(self):
        self.assertFalse(self.judge({}, object="pods a/p#1"))
        self.assertFalse(self.judge({}, changed=False))
        self.assertFalse(self.judge({}, cursor=2))
        self.assertFalse(self.judge({"occurrence": 2}))
        self.assertFalse(self.judge({"refused": 422}))
        self.assertFalse(self.judge({"facts": {"/spec/replicas": 1}}, item={"spec": {"replicas": 2}}))
        self.assertFalse(self.judge({"facts": {"/uid": "${uid:pods a/q#1}"}}))

    def test_a_refused_write_is_known_by_its_status(self):
        self.assertTrue(self.judge({"refused": 422}, status=422, changed=False))


class Faults(unittest.TestCase):
    def test_a_fault_is_due_once_at_its_occurrence(self):
        fault = {"request": ["create", "pods", 2], "rule": "W3", "do": "lose-answer"}
        world = World({"randomPrefixes": [], "faults": [fault]})
        self.assertEqual(world.due("request", "create", "pods"), [])
        self.assertEqual(world.due("request", "delete", "pods"), [])
        self.assertEqual(world.due("event", "pods"), [])
        self.assertEqual(world.due("request", "create", "pods"), [fault])
        self.assertEqual(world.due("request", "create", "pods"), [])

    def test_a_version_of_the_past_precedes_as_many_changes(self):
        world = World({"randomPrefixes": [], "faults": []})
        world.versions = {"pods": [10, 20, 30]}
        self.assertEqual(world.version_before("pods", 1), 29)
        self.assertEqual(world.version_before("pods", 9), 9)
        self.assertIsNone(world.version_before("pods", 0))
        self.assertIsNone(world.version_before("nodes", 1))


if __name__ == "__main__":
    unittest.main()
