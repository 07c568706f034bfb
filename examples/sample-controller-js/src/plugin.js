// Foo → Deployment: the controller that Kubernetes' own documentation teaches with, as a plugin.
//
// A Foo names a Deployment and says how many replicas it has. The plugin creates that Deployment, repairs it when somebody changes it,
// creates it again when somebody deletes it, and reports how many replicas are available.

import { client, definePlugin, log, owner, Retry } from "@pilothouse/sdk";

import { FOO_CRD } from "./crd.js";
import { newDeployment, repair } from "./deployment.js";

export default definePlugin({
  describe: {
    name: "sample-controller-js",
    version: "0.1.0",
    summary: "Runs a Deployment for every Foo",
    crds: [FOO_CRD],
    watches: [
      { name: "foos", apiVersion: "samplecontroller.k8s.io/v1alpha1", kind: "Foo", trigger: "self" },
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
    const reported = report(foo, deployment);
    if (change !== "unchanged" || reported) {
      log.info("synced", { deployment: key, change });
      ctx.events.normal(foo, "Synced", "Sync", "Foo synced successfully");
    }
  },
});

/** Writes the status when it differs, and says whether it did. */
function report(foo, deployment) {
  const availableReplicas = deployment.status?.availableReplicas ?? 0;
  if (foo.status?.availableReplicas === availableReplicas) return false;
  client.updateStatus({ ...foo, status: { availableReplicas } });
  return true;
}
