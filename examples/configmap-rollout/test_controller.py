"""Runs the controller against an in-memory host: python -m unittest"""

import copy
import unittest

from pilothouse import testing

import controller

KEY = ("default", "web")

POD = {
    "initContainers": [{"name": "init", "envFrom": [{"configMapRef": {"name": "from-init"}}, {"secretRef": {"name": "no"}}]}],
    "containers": [
        {
            "name": "main",
            "env": [
                {"name": "A", "value": "plain"},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "from-env", "key": "b"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "no", "key": "c"}}},
            ],
        }
    ],
    "volumes": [
        {"name": "v1", "configMap": {"name": "from-volume"}},
        {"name": "v2", "projected": {"sources": [{"configMap": {"name": "from-projected"}}, {"secret": {"name": "no"}}]}},
        {"name": "v3", "emptyDir": {}},
    ],
}


class RolloutTest(unittest.TestCase):
    def setUp(self):
        self.host = testing.Host(controller.plugin)

    def deployment(self, pod):
        return self.host.add(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"namespace": "default", "name": "web", "labels": {"configmap-rollout": "enabled"}},
                "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": copy.deepcopy(pod)}},
            }
        )

    def config_map(self, name, data, **metadata):
        metadata = {"namespace": "default", "name": name, **metadata}
        self.host.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    def rolled_out(self):
        """Reconciles, and returns the hash."""
        self.host.reconcile("deployments", KEY)
        metadata = self.host.get("apps/v1", "Deployment", KEY)["spec"]["template"]["metadata"]
        self.assertEqual(metadata["labels"], {"app": "web"})
        return metadata.get("annotations", {}).get(controller.ANNOTATION)

    def test_every_kind_of_reference_to_a_config_map_is_indexed(self):
        values = self.host.index_values("byConfigMap", self.deployment(POD))
        self.assertEqual(
            values, ["default/from-env", "default/from-init", "default/from-projected", "default/from-volume"]
        )

    def test_each_referenced_config_map_changes_the_hash(self):
        self.deployment(POD)
        hashes = {self.rolled_out()}
        for name in ("from-env", "from-init", "from-projected", "from-volume"):
            self.config_map(name, {"key": "value"})
            hashes.add(self.rolled_out())
        self.assertEqual(len(hashes), 5)

    def test_changes_that_do_not_reach_the_pods_write_nothing(self):
        self.deployment(POD)
        self.config_map("from-env", {"b": "1", "a": "2"})
        before = self.rolled_out()
        self.config_map("from-env", {"a": "2", "b": "1"}, labels={"somebody": "else"})
        self.config_map("unrelated", {"b": "1"})
        self.host.writes.clear()
        self.assertEqual(self.rolled_out(), before)
        self.assertEqual(self.host.writes, [])

    def test_a_deployment_without_config_maps_gets_no_annotation(self):
        self.deployment(POD)
        self.assertIsNotNone(self.rolled_out())
        manifest = self.host.get("apps/v1", "Deployment", KEY)
        manifest["spec"]["template"]["spec"] = {"containers": []}
        self.host.add(manifest)
        self.assertIsNone(self.rolled_out())


if __name__ == "__main__":
    unittest.main()
