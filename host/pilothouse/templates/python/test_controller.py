"""The controller against a host in memory: python -m unittest"""

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

    def test_changed_replicas_are_repaired_and_nothing_else_is_touched(self):
        self.foo(replicas=2)
        self.host.reconcile("foos", KEY)
        wanted = self.host.get(*DEPLOYMENT)
        self.host.add({**wanted, "spec": {**wanted["spec"], "replicas": 7}})
        self.host.reconcile("foos", KEY)
        self.assertEqual(self.host.get(*DEPLOYMENT)["spec"], wanted["spec"])

    def test_a_second_reconcile_writes_nothing(self):
        self.foo()
        self.host.reconcile("foos", KEY)
        self.host.writes.clear()
        self.host.reconcile("foos", KEY)
        self.assertEqual(self.host.writes, [])

    def test_the_status_says_what_is_available(self):
        self.foo()
        self.host.reconcile("foos", KEY)
        self.host.add({**self.host.get(*DEPLOYMENT), "status": {"availableReplicas": 1}})
        self.host.reconcile("foos", KEY)
        foo = self.host.get("samplecontroller.k8s.io/v1alpha1", "Foo", KEY)
        self.assertEqual(foo["status"], {"availableReplicas": 1})

    def test_a_deployment_of_somebody_else_is_left_alone(self):
        metadata = {"namespace": "default", "name": "example-web"}
        theirs = self.host.add({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
        self.foo()
        with self.assertRaisesRegex(Retry, "already exists"):
            self.host.reconcile("foos", KEY)
        self.assertEqual(self.host.get(*DEPLOYMENT), theirs)
        self.assertEqual([event.reason for event in self.host.events], ["ErrResourceExists"])


if __name__ == "__main__":
    unittest.main()
