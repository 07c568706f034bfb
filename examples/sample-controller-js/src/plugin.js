// A controller that runs a Deployment for every Foo: the sample controller of the Kubernetes documentation, as a plugin.
//
// A Foo names a Deployment and its number of replicas. The plugin creates the Deployment, reverts changes to it, recreates it when it
// is deleted, and reports the number of available replicas.

import { client, definePlugin, log, owner, Retry } from "@pilothouse/sdk";

import { FOO_CRD } from "./crd.js";
import { newDeployment, setDesiredState } from "./deployment.js";

// The names of the watches.
const FOOS = "foos";
const DEPLOYMENTS = "deployments";

export default definePlugin({
  describe: {
    name: "sample-controller-js",
    version: "0.1.0",
    summary: "Runs a Deployment for every Foo",
    crds: [FOO_CRD],
    watches: [
      {
        name: FOOS,
        apiVersion: "samplecontroller.k8s.io/v1alpha1",
        kind: "Foo",
        trigger: "self",
        // Ignores changes of a Foo's status, which this plugin writes itself.
        predicate: "generationChanged()",
      },
      { name: DEPLOYMENTS, apiVersion: "apps/v1", kind: "Deployment", trigger: { owner: { watch: FOOS } } },
    ],
    writes: [
      { apiGroups: ["apps"], resources: ["deployments"], verbs: ["create", "update"] },
      { apiGroups: ["samplecontroller.k8s.io"], resources: ["foos/status"], verbs: ["update"] },
    ],
  },

  reconcile(ctx, request) {
    const foo = ctx.cache(FOOS).get(request.key)?.json();
    // The garbage collector deletes the Deployment of a deleted Foo.
    if (foo === undefined || foo.metadata.deletionTimestamp) return;

    const key = request.key.sibling(foo.spec.deploymentName);
    const present = ctx.cache(DEPLOYMENTS).get(key)?.json();
    if (present !== undefined && !owner.isControlledBy(present, foo)) {
      const note = `Deployment ${key} already exists and is not managed by Foo ${request.key}`;
      ctx.events.warning(foo, "ErrResourceExists", "Sync", note);
      throw new Retry(note);
    }
    const { object: deployment, change } = client.createOrUpdate(
      present,
      () => newDeployment(foo),
      (deployment) => setDesiredState(deployment, foo),
    );
    const statusChanged = updateStatus(foo, deployment);
    if (change !== "unchanged" || statusChanged) {
      log.info("synced", { deployment: key, change });
      ctx.events.normal(foo, "Synced", "Sync", "Foo synced successfully");
    }
  },
});

/** Updates the Foo's status if it differs, and returns whether it did. */
function updateStatus(foo, deployment) {
  const availableReplicas = deployment.status?.availableReplicas ?? 0;
  if (foo.status?.availableReplicas === availableReplicas) return false;
  client.updateStatus({ ...foo, status: { availableReplicas } });
  return true;
}
