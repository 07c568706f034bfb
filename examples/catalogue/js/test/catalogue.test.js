// Runs both twins of each case against an in-memory cluster: `npm test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { fakeHost } from "@pilothouse/sdk/testing";

import * as finalizerBranch from "../src/finalizer-branch.js";
import * as foreignOwner from "../src/foreign-owner.js";
import * as freshTime from "../src/fresh-time.js";
import * as startAsChange from "../src/start-as-change.js";

const KEY = { namespace: "default", name: "a" };

function own(kind, spec, metadata = {}) {
  return { apiVersion: "catalogue.pilothouse.dev/v1", kind, metadata: { ...KEY, uid: "u1", ...metadata }, spec };
}

test("after a crash behind the finalizer, only the wrong twin never sets the phase", () => {
  for (const [plugin, phase] of [[finalizerBranch.wrong, undefined], [finalizerBranch.right, "Pending"]]) {
    const work = own("Work", {}, { finalizers: ["catalogue.pilothouse.dev/work"] });
    const host = fakeHost(plugin, { objects: [work] });
    host.reconcile("works", KEY);
    assert.equal(host.get(work, KEY).status?.phase, phase);
  }
});

test("without a crash, both twins set the phase", () => {
  for (const plugin of [finalizerBranch.wrong, finalizerBranch.right]) {
    const host = fakeHost(plugin, { objects: [own("Work", {})] });
    host.reconcile("works", KEY);
    assert.equal(host.get(own("Work"), KEY).status.phase, "Pending");
  }
});

test("a start restarts the Deployment of the wrong twin only", () => {
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { ...KEY, labels: { "used-by": "web" } }, data: { key: "eA==" } };
  const deployment = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { namespace: "default", name: "web", labels: { uses: "a" } },
    spec: { template: { metadata: {} } },
  };
  const wrong = fakeHost(startAsChange.wrong, { objects: [secret, deployment] });
  wrong.observe({ watch: "secrets", after: secret, initial: true });
  wrong.observe({ watch: "secrets", after: secret, initial: true });
  assert.equal(wrong.writes.length, 2);
  const right = fakeHost(startAsChange.right, { objects: [secret, deployment] });
  right.reconcile("secrets", KEY);
  right.reconcile("secrets", KEY, { reasons: ["startup"] });
  assert.equal(right.writes.length, 1);
});

test("the wrong twin writes at each reconcile", () => {
  for (const [plugin, count] of [[freshTime.wrong, 3], [freshTime.right, 1]]) {
    const host = fakeHost(plugin, { objects: [own("Check", {})] });
    for (let i = 0; i < 3; i++) host.reconcile("checks", KEY);
    assert.equal(host.writes.length, count);
  }
});

test("only the wrong twin makes an object of another namespace its dependent", () => {
  for (const [plugin, count] of [[foreignOwner.wrong, 1], [foreignOwner.right, 0]]) {
    const host = fakeHost(plugin, { objects: [own("Export", { namespace: "kube-public", text: "hello" })] });
    host.reconcile("exports", KEY);
    host.reconcile("exports", KEY);
    const copy = host.get({ apiVersion: "v1", kind: "ConfigMap" }, { namespace: "kube-public", name: "default-a" });
    assert.equal(copy.data.text, "hello");
    assert.equal((copy.metadata.ownerReferences ?? []).length, count);
  }
});

test("the right twin deletes the copy of an Export that was deleted", () => {
  const source = own("Export", { namespace: "kube-public", text: "hello" });
  const host = fakeHost(foreignOwner.right, { objects: [source] });
  host.reconcile("exports", KEY);
  host.remove(source, KEY);
  host.reconcile("exports", KEY);
  assert.equal(host.get({ apiVersion: "v1", kind: "ConfigMap" }, { namespace: "kube-public", name: "default-a" }), undefined);
});
