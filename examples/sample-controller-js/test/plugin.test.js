// Runs the plugin against an in-memory cluster: `npm test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { fakeHost } from "@pilothouse/sdk/testing";

import { newDeployment, setDesiredState } from "../src/deployment.js";
import plugin from "../src/plugin.js";

const KEY = { namespace: "default", name: "example" };
const DEPLOYMENT = { apiVersion: "apps/v1", kind: "Deployment" };

function foo(spec = {}) {
  return {
    apiVersion: "samplecontroller.k8s.io/v1alpha1",
    kind: "Foo",
    metadata: { ...KEY, uid: "foo-uid" },
    spec: { deploymentName: "example-web", ...spec },
  };
}

const deploymentOf = (host) => host.get(DEPLOYMENT, { namespace: "default", name: "example-web" });

test("a Foo gets one Deployment and one Event", () => {
  const host = fakeHost(plugin, { objects: [foo({ replicas: 2 })] });
  assert.deepEqual(host.reconcile("foos", KEY), { outcome: "done" });
  const { metadata, spec } = deploymentOf(host);
  assert.equal(metadata.ownerReferences[0].uid, "foo-uid");
  assert.equal(spec.replicas, 2);
  assert.deepEqual(spec.selector.matchLabels, spec.template.metadata.labels);
  assert.equal(host.get(foo(), KEY).status.availableReplicas, 0);
  assert.deepEqual(host.events.map(({ reason }) => reason), ["Synced"]);

  host.reconcile("foos", KEY);
  assert.deepEqual(host.requests.map(({ verb }) => verb), ["create", "update"], "the second reconcile sends no request");
});

test("the status follows the Deployment's status", () => {
  const host = fakeHost(plugin, { objects: [foo()] });
  host.reconcile("foos", KEY);
  host.put({ ...deploymentOf(host), status: { availableReplicas: 1 } });
  host.reconcile("foos", KEY);
  assert.equal(host.get(foo(), KEY).status.availableReplicas, 1);
});

test("a Deployment of another owner is not changed", () => {
  const taken = { ...newDeployment(foo()), metadata: { namespace: "default", name: "example-web" } };
  const host = fakeHost(plugin, { objects: [foo(), taken] });
  const { outcome, message } = host.reconcile("foos", KEY);
  assert.equal(outcome, "retry");
  assert.match(message, /already exists and is not managed by Foo default\/example/);
  assert.deepEqual(host.events.map(({ type, reason }) => [type, reason]), [["warning", "ErrResourceExists"]]);
  assert.equal(host.requests.length, 0);
});

test("changed replicas and image are reverted and other fields are kept", () => {
  const desired = newDeployment(foo({ replicas: 2 }));
  const drifted = structuredClone(desired);
  drifted.spec.replicas = 7;
  drifted.spec.template.spec.containers[0].image = "nginx:0.1";
  setDesiredState(drifted, foo({ replicas: 2 }));
  assert.deepEqual(drifted, desired);

  drifted.spec.replicas = 7;
  setDesiredState(drifted, foo());
  assert.equal(drifted.spec.replicas, 7, "without spec.replicas another controller, such as an autoscaler, may set them");
});

test("a deleted Foo sends no request", () => {
  const going = foo();
  going.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
  for (const objects of [[], [going]]) {
    const host = fakeHost(plugin, { objects });
    assert.deepEqual(host.reconcile("foos", KEY), { outcome: "done" });
    assert.equal(host.requests.length, 0);
  }
});
