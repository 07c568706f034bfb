// Runs the plugin against an in-memory cluster: `npm test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { fakeHost } from "@pilothouse/sdk/testing";

import plugin from "../src/plugin.js";

test("a ConfigMap is logged", () => {
  const metadata = { namespace: "default", name: "web" };
  const host = fakeHost(plugin, { objects: [{ apiVersion: "v1", kind: "ConfigMap", metadata }] });
  assert.deepEqual(host.reconcile("configmaps", metadata), { outcome: "done" });
  assert.deepEqual(host.logs.map(({ message }) => message), ["hello, default/web"]);
});
