// Runs the plugin against an in-memory cluster: `npm test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { fakeHost } from "@pilothouse/sdk/testing";

import plugin from "../src/plugin.js";

const KEY = { namespace: "shop", name: "settings" };

function configMap(labels = {}) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { ...KEY, labels } };
}

function namespace(labels = {}) {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop", labels } };
}

function labelsAfter(host) {
  assert.deepEqual(host.reconcile("maps", KEY), { outcome: "done" });
  return host.get(configMap(), KEY).metadata.labels;
}

test("only the chosen labels are copied", () => {
  const objects = [namespace({ team: "blue", "cost-centre": "7", tier: "gold" }), configMap({ app: "web" })];
  const host = fakeHost(plugin, { objects });
  assert.deepEqual(labelsAfter(host), { app: "web", team: "blue", "cost-centre": "7" });
  labelsAfter(host);
  assert.deepEqual(host.requests.map(({ verb }) => verb), ["patch"], "the second reconcile sends no request");
});

test("the sidecar's config chooses the labels", () => {
  const host = fakeHost(plugin, { objects: [namespace({ team: "blue", tier: "gold" }), configMap()], config: { labels: ["tier"] } });
  assert.deepEqual(labelsAfter(host), { tier: "gold" });
});

test("an invalid config refuses the load", () => {
  for (const labels of ["team", [], [3]]) {
    assert.throws(() => fakeHost(plugin, { config: { labels } }), (refusal) => refusal.startsWith("config.labels must be"));
  }
});

test("an apply names the ConfigMap that was read", () => {
  const host = fakeHost(plugin, { objects: [namespace({ team: "blue" }), configMap()] });
  const { uid } = host.get(configMap(), KEY).metadata;
  labelsAfter(host);
  assert.equal(host.get(configMap(), KEY).metadata.uid, uid);
});

test("a ConfigMap that is deleted or has no Namespace is not changed", () => {
  const deleted = configMap();
  deleted.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
  for (const objects of [[], [configMap()], [namespace({ team: "blue" })], [namespace({ team: "blue" }), deleted]]) {
    const host = fakeHost(plugin, { objects });
    assert.deepEqual(host.reconcile("maps", KEY), { outcome: "done" });
    assert.equal(host.requests.length, 0);
  }
});
