// For every Foo, a Deployment.

import { client, definePlugin, log, owner, Retry } from "@pilothouse/sdk";

import { FOO_CRD } from "./crd.js";
import { newDeployment, repair } from "./deployment.js";

export default definePlugin({
  describe: {
    name: "{{name}}",
    version: "0.1.0",
    summary: "Runs a Deployment for every Foo",
    crds: [FOO_CRD],
    watches: [
      {
        name: "foos",
        apiVersion: "samplecontroller.k8s.io/v1alpha1",
        kind: "Foo",
        trigger: "self",
        // A Foo's own status, which this plugin writes, is no news to it.
        predicate: "generationChanged()",
      },
      { name: "deployments", apiVersion: "apps/v1", kind: "Deployment", trigger: { owner: { watch: "foos" } } },
    ],
    writes: [
      { apiGroups: ["apps"], resources: ["deployments"], verbs: ["create", "update"] },
      { apiGroups: ["samplecontroller.k8s.io"], resources: ["foos/status"], verbs: ["update"] },
    ],
  },

  reconcile(ctx, request) {
    const foo = ctx.cache("foos").get(request.key)?.json();
    // The Deployment of a Foo that is gone goes with it, by the owner reference.
    if (foo === undefined || foo.metadata.deletionTimestamp) return;

    const key = request.key.sibling(foo.spec.deploymentName);
    const present = ctx.cache("deployments").get(key)?.json();
    if (present !== undefined && !owner.isControlledBy(present, foo)) {
      const note = `Deployment ${key} already exists and is not managed by Foo ${request.key}`;
      ctx.events.warning(foo, "ErrResourceExists", "Sync", note);
      throw new Retry(note);
    }
    const { object: deployment, change } = client.createOrUpdate(
      present,
      () => newDeployment(foo),
      (deployment) => repair(deployment, foo),
    );
    if (change !== "unchanged") log.info(`Deployment ${key}: ${change}`);
    report(foo, deployment);
  },
});

/** Writes the status when it differs. */
function report(foo, deployment) {
  const availableReplicas = deployment.status?.availableReplicas ?? 0;
  if (foo.status?.availableReplicas === availableReplicas) return;
  client.updateStatus({ ...foo, status: { availableReplicas } });
}
