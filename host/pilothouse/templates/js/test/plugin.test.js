// The plugin on a cluster in memory: `npm test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { fakeHost } from "@pilothouse/sdk/testing";

import { newDeployment, repair } from "../src/deployment.js";
import plugin from "../src/plugin.js";

const KEY = { namespace: "default", name: "example" };

function foo(spec = {}) {
  return {
    apiVersion: "samplecontroller.k8s.io/v1alpha1",
    kind: "Foo",
    metadata: { ...KEY, uid: "foo-uid" },
    spec: { deploymentName: "example-web", ...spec },
  };
}

test("a Foo gets its Deployment, once", () => {
  const host = fakeHost(plugin, { objects: [foo({ replicas: 2 })] });
  assert.deepEqual(host.reconcile("foos", KEY), { outcome: "done" });
  const deployment = host.get({ apiVersion: "apps/v1", kind: "Deployment" }, { namespace: "default", name: "example-web" });
  assert.equal(deployment.metadata.ownerReferences[0].uid, "foo-uid");
  assert.equal(deployment.spec.replicas, 2);
  assert.equal(host.get(foo(), KEY).status.availableReplicas, 0);

  host.reconcile("foos", KEY);
  assert.deepEqual(host.requests.map(({ verb }) => verb), ["create", "update"], "the second time there is nothing to do");
});

test("a Deployment of somebody else is left alone", () => {
  const taken = { ...newDeployment(foo()), metadata: { namespace: "default", name: "example-web" } };
  const host = fakeHost(plugin, { objects: [foo(), taken] });
  assert.equal(host.reconcile("foos", KEY).outcome, "retry");
  assert.equal(host.requests.length, 0);
});

test("changed replicas are repaired and nothing else is touched", () => {
  const wanted = newDeployment(foo({ replicas: 2 }));
  const deployment = structuredClone(wanted);
  deployment.spec.replicas = 7;
  repair(deployment, foo({ replicas: 2 }));
  assert.deepEqual(deployment, wanted);
});
