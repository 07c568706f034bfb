"""Runs the controller against an in-memory host: python -m unittest"""

import unittest

from pilothouse import testing

import controller


class ControllerTest(unittest.TestCase):
    def test_a_config_map_is_logged(self):
        host = testing.Host(controller.plugin)
        host.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "web"}})
        self.assertIsNone(host.reconcile("configmaps", ("default", "web")))
        self.assertEqual([line.message for line in host.log], ["hello, default/web"])


if __name__ == "__main__":
    unittest.main()
