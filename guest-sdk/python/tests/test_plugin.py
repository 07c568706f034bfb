"""Descriptors and exports of plugins."""

import unittest
from datetime import timedelta

from pilothouse import Plugin, PluginError, index, trigger


class DescriptorTest(unittest.TestCase):
    def test_the_smallest_descriptor_has_no_optional_fields(self):
        plugin = Plugin("tiny", "0.1.0")
        plugin.watch("configmaps", "v1", "ConfigMap")
        self.assertEqual(
            plugin.descriptor(),
            {
                "apiVersion": "pilothouse.dev/v1alpha1",
                "kind": "Plugin",
                "name": "tiny",
                "version": "0.1.0",
                "watches": [{"name": "configmaps", "apiVersion": "v1", "kind": "ConfigMap"}],
            },
        )

    def test_every_option_is_in_the_descriptor(self):
        plugin = Plugin("full", "1.2.3", summary="Says all", stateful=True)
        foos = plugin.watch(
            "foos",
            "example.com/v1",
            "Foo",
            trigger=trigger.ITSELF,
            predicate="generationChanged()",
            labels="app=web",
            fields="metadata.name=web",
            namespaces=["default"],
            indexes={
                "byApp": index.label("app"),
                "byNote": index.annotation("note"),
                "byImage": index.field("{.spec.image}"),
                "byOwner": index.owner(),
                "byWord": index.computed(),
            },
            notify=True,
            metadata_only=True,
            resync=timedelta(minutes=1),
            resource="foos",
        )
        plugin.writes("apps", "deployments deployments/scale", "create", "patch", namespaces=["default"])
        plugin.writes("", "pods", "get")
        plugin.crd({"kind": "CustomResourceDefinition"})
        plugin.limits(memory="128Mi", reconcile_timeout=timedelta(seconds=10), handles=500)
        plugin.limits(observe_timeout=timedelta(milliseconds=1500))
        plugin.reconcile(foos)(lambda request: None)
        plugin.observe(lambda notifications: None)
        plugin.index("byWord")(lambda thing: [])
        document = plugin.descriptor()
        self.assertEqual(
            document["watches"],
            [
                {
                    "name": "foos",
                    "apiVersion": "example.com/v1",
                    "kind": "Foo",
                    "resource": "foos",
                    "namespaces": ["default"],
                    "labelSelector": "app=web",
                    "fieldSelector": "metadata.name=web",
                    "projection": "metadata",
                    "trigger": "self",
                    "predicate": "generationChanged()",
                    "notify": True,
                    "resync": 60_000,
                    "indexes": [
                        {"name": "byApp", "label": "app"},
                        {"name": "byNote", "annotation": "note"},
                        {"name": "byImage", "field": "{.spec.image}"},
                        {"name": "byOwner", "owner": True},
                        {"name": "byWord", "computed": True},
                    ],
                }
            ],
        )
        self.assertEqual(
            document["writes"],
            [
                {
                    "apiGroups": ["apps"],
                    "resources": ["deployments", "deployments/scale"],
                    "verbs": ["create", "patch"],
                    "namespaces": ["default"],
                },
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            ],
        )
        self.assertEqual(document["crds"], [{"kind": "CustomResourceDefinition"}])
        self.assertEqual((document["summary"], document["stateful"]), ("Says all", True))
        self.assertEqual(
            document["limits"],
            {"memory": "128Mi", "reconcileTimeout": "10s", "observeTimeout": "1500ms", "handles": 500},
        )

    def test_every_trigger_names_its_target(self):
        plugin = Plugin("triggers", "1")
        foos = plugin.watch("foos", "example.com/v1", "Foo", trigger=trigger.ITSELF)
        self.assertEqual(trigger.owner(foos), {"owner": {"watch": "foos"}})
        self.assertEqual(trigger.every_owner("foos"), {"ownerAny": {"watch": "foos"}})
        self.assertEqual(trigger.label("app", foos), {"label": {"key": "app", "watch": "foos"}})
        self.assertEqual(
            trigger.field("{.spec.foo}", foos, namespace_path="{.spec.ns}"),
            {"field": {"path": "{.spec.foo}", "watch": "foos", "namespacePath": "{.spec.ns}"}},
        )
        self.assertEqual(trigger.index(foos, "byKey"), {"index": {"watch": "foos", "index": "byKey"}})
        self.assertEqual(trigger.namespace(foos), {"namespace": {"watch": "foos"}})


class ExportsTest(unittest.TestCase):
    def test_a_plugin_exports_only_interfaces_with_functions(self):
        plugin = Plugin("grows", "1")
        self.assertEqual(plugin.exports, ["plugin"])
        plugin.index("byWord")(lambda thing: [])
        self.assertEqual(plugin.exports, ["plugin", "index"])
        plugin.reconcile()(lambda request: None)
        plugin.observe(lambda notifications: None)
        self.assertEqual(plugin.exports, ["plugin", "reconcile", "observe", "index"])


class MistakesTest(unittest.TestCase):
    def refused(self, build, text):
        plugin = Plugin("wrong", "1")
        build(plugin)
        with self.assertRaisesRegex(PluginError, text):
            plugin.descriptor()

    def test_two_watches_with_the_same_name(self):
        plugin = Plugin("wrong", "1")
        plugin.watch("foos", "v1", "ConfigMap")
        with self.assertRaisesRegex(PluginError, "there are two watches named 'foos'"):
            plugin.watch("foos", "v1", "Secret")

    def test_a_reconcile_of_a_watch_that_is_not_a_target(self):
        def build(plugin):
            plugin.watch("foos", "v1", "ConfigMap", trigger=trigger.ITSELF)
            plugin.reconcile()(lambda request: None)
            plugin.reconcile("bars")(lambda request: None)

        self.refused(build, r"reconcile\('bars'\).*those that have: foos")

    def test_a_target_without_reconcile(self):
        self.refused(
            lambda plugin: plugin.watch("foos", "v1", "ConfigMap", trigger=trigger.ITSELF),
            r"no @plugin.reconcile\('foos'\)",
        )

    def test_notify_without_observer_and_observer_without_notify(self):
        self.refused(lambda plugin: plugin.watch("foos", "v1", "ConfigMap", notify=True), "no @plugin.observe")
        self.refused(lambda plugin: plugin.observe(lambda notifications: None), "no watch has notify=True")

    def test_a_computed_index_needs_a_declaration_and_a_function(self):
        indexes = {"byWord": index.computed()}
        self.refused(lambda plugin: plugin.watch("foos", "v1", "ConfigMap", indexes=indexes), r"no @plugin.index\('byWord'\)")
        self.refused(lambda plugin: plugin.index("byWord")(lambda thing: []), "no watch declares it")


if __name__ == "__main__":
    unittest.main()
