"""Runs the controller against an in-memory host: python -m unittest"""

import unittest

from pilothouse import Retry, testing

import controller

KEY = ("default", "example")
DEPLOYMENT = ("apps/v1", "Deployment", ("default", "example-web"))


class ControllerTest(unittest.TestCase):
    def setUp(self):
        self.host = testing.Host(controller.plugin)

    def foo(self, **spec):
        return self.host.add(
            {
                "apiVersion": "samplecontroller.k8s.io/v1alpha1",
                "kind": "Foo",
                "metadata": {"namespace": "default", "name": "example"},
                "spec": {"deploymentName": "example-web", **spec},
            }
        )

    def test_a_foo_gets_a_deployment_that_it_owns(self):
        foo = self.foo()
        self.host.reconcile("foos", KEY)
        deployment = self.host.get(*DEPLOYMENT)
        self.assertEqual(deployment["metadata"]["ownerReferences"][0]["uid"], foo["metadata"]["uid"])
        self.assertEqual(deployment["spec"]["replicas"], 1)
        self.assertEqual(
            deployment["spec"]["selector"]["matchLabels"], deployment["spec"]["template"]["metadata"]["labels"]
        )

    def test_changed_replicas_and_image_are_reverted_and_other_fields_are_kept(self):
        self.foo(replicas=2)
        self.host.reconcile("foos", KEY)
        desired = self.host.get(*DEPLOYMENT)
        drifted = self.host.get(*DEPLOYMENT)
        drifted["spec"]["replicas"] = 7
        drifted["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:0.1"
        self.host.add(drifted)
        self.host.reconcile("foos", KEY)
        self.assertEqual(self.host.get(*DEPLOYMENT)["spec"], desired["spec"])

    def test_without_replicas_in_the_foo_another_controller_may_set_them(self):
        self.foo()
        self.host.reconcile("foos", KEY)
        scaled = self.host.get(*DEPLOYMENT)
        scaled["spec"]["replicas"] = 7  # As an autoscaler would.
        self.host.add(scaled)
        self.host.reconcile("foos", KEY)
        self.assertEqual(self.host.get(*DEPLOYMENT)["spec"]["replicas"], 7)

    def test_a_second_reconcile_writes_nothing_and_publishes_no_event(self):
        self.foo()
        self.host.reconcile("foos", KEY)
        self.assertEqual([event.reason for event in self.host.events], ["Synced"])
        self.host.writes.clear()
        self.host.reconcile("foos", KEY)
        self.assertEqual((self.host.writes, len(self.host.events)), ([], 1))

    def test_the_status_follows_the_deployments_status(self):
        self.foo()
        self.host.reconcile("foos", KEY)
        self.host.add({**self.host.get(*DEPLOYMENT), "status": {"availableReplicas": 1}})
        self.host.reconcile("foos", KEY)
        foo = self.host.get("samplecontroller.k8s.io/v1alpha1", "Foo", KEY)
        self.assertEqual(foo["status"], {"availableReplicas": 1})

    def test_a_deployment_of_another_owner_is_not_changed(self):
        metadata = {"namespace": "default", "name": "example-web"}
        theirs = self.host.add({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
        self.foo()
        with self.assertRaisesRegex(Retry, "already exists"):
            self.host.reconcile("foos", KEY)
        self.assertEqual(self.host.get(*DEPLOYMENT), theirs)
        self.assertEqual([event.reason for event in self.host.events], ["ErrResourceExists"])


if __name__ == "__main__":
    unittest.main()
