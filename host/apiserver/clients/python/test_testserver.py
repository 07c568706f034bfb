"""Tests of the helper. They need the binary in $PILOTHOUSE_BINARY or $PATH."""

import json
import os
import unittest
import unittest.mock

import pilothouse_testserver

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class TestServer(unittest.TestCase):
    def setUp(self):
        self.server = pilothouse_testserver.start(flags=["--controllers", "none"])
        self.addCleanup(self.server.stop)

    def create(self, name):
        self.server.call("POST", CONFIG_MAPS, {"metadata": {"name": name}})

    def names(self):
        return [item["metadata"]["name"] for item in json.loads(self.server.call("GET", CONFIG_MAPS))["items"]]

    def test_faults_apply_until_they_are_cleared(self):
        self.server.inject(verb="create", resource="configmaps", code=409, count=5)
        with self.assertRaisesRegex(pilothouse_testserver.ServerError, "409"):
            self.create("a")
        self.server.clear_faults()
        self.create("a")
        with self.assertRaisesRegex(pilothouse_testserver.ServerError, "unknown field"):
            self.server.inject(cuont=5)

    def test_snapshots_are_restored(self):
        self.server.take_snapshot("empty")
        self.create("a")
        self.assertEqual(self.names(), ["a"])
        self.server.restore_snapshot("empty")
        self.assertEqual(self.names(), [])

    def test_requests_use_no_proxy_from_the_environment(self):
        proxies = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "", "no_proxy": ""}
        with unittest.mock.patch.dict(os.environ, proxies):
            with pilothouse_testserver.start(flags=["--controllers", "none"]) as server:
                server.call("GET", CONFIG_MAPS)

    def test_server_without_tls_needs_no_token(self):
        with pilothouse_testserver.start(flags=["--controllers", "none", "--insecure-http"]) as server:
            server.call("GET", CONFIG_MAPS)

    def test_stop_removes_the_files(self):
        self.assertTrue(os.path.exists(self.server.kubeconfig))
        self.server.stop()
        self.server.stop()
        self.assertFalse(os.path.exists(self.server.kubeconfig))

    def test_start_reports_what_the_server_says(self):
        with self.assertRaisesRegex(pilothouse_testserver.ServerError, "there is no controller"):
            pilothouse_testserver.start(flags=["--controllers", "unknown"])
        with self.assertRaises(pilothouse_testserver.ServerError):
            pilothouse_testserver.start(binary="/does/not/exist")


if __name__ == "__main__":
    unittest.main()
