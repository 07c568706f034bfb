// A controller that runs a Deployment for every Foo: the sample controller of the Kubernetes documentation, as a plugin in AssemblyScript.
//
// A Foo names a Deployment and its number of replicas. The plugin creates the Deployment, reverts changes to it, recreates it when it
// is deleted, and reports the number of available replicas.

import { FOO_CRD } from "./crd";
import {
  description, eventNormal, eventWarning, Key, Kind, KubeObject, Level, log, Outcome, Pair, PatchType, quote, Request, runReconcile, Watch,
} from "./pilothouse";
import * as client from "./pilothouse/client";

// The host calls these, too: `cabi_realloc` for memory, and the others when it has read the result of an export.
export {
  cabi_realloc,
  endCall as cabi_post_ph_describe,
  endCall as cabi_post_ph_reconcile,
} from "./pilothouse";

/** The image that every Deployment runs. Change it and build again: the new version of the plugin rolls it out to every Foo. */
const IMAGE = "nginx:1.29";

const FOO = new Kind("samplecontroller.k8s.io/v1alpha1", "Foo");
const DEPLOYMENT = new Kind("apps/v1", "Deployment");

const foos = new Watch("foos");
const deployments = new Watch("deployments");

// The predicate ignores changes of a Foo's status, which this plugin writes itself.
const DESCRIPTOR = `{
  "apiVersion": "pilothouse.dev/v1alpha1",
  "kind": "Plugin",
  "name": "sample-controller-assemblyscript",
  "version": "0.1.0",
  "summary": "Runs a Deployment for every Foo",
  "crds": [${FOO_CRD}],
  "watches": [
    {"name": "foos", "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "trigger": "self", "predicate": "generationChanged()"},
    {"name": "deployments", "apiVersion": "apps/v1", "kind": "Deployment", "trigger": {"owner": {"watch": "foos"}}}
  ],
  "writes": [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "patch"]},
    {"apiGroups": ["samplecontroller.k8s.io"], "resources": ["foos/status"], "verbs": ["patch"]}
  ]
}`;

export function ph_describe(config: usize, configLength: usize): usize {
  return description(DESCRIPTOR);
}

export function ph_reconcile(
  watch: usize, watchLength: usize, namespace: usize, namespaceLength: usize, name: usize, nameLength: usize,
  reasons: usize, reasonCount: usize, attempt: u32, extra: usize, extraCount: usize,
): usize {
  return runReconcile(reconcileFoo, watch, watchLength, namespace, namespaceLength, name, nameLength, reasons, reasonCount, attempt);
}

/** Brings the Deployment of one Foo to its desired state. */
function reconcileFoo(request: Request): Outcome {
  const foo = foos.get(request.key);
  // The garbage collector deletes the Deployment of a deleted Foo.
  if (foo == null || foo.deletionTimestamp != null) return Outcome.done();

  const deploymentName = foo.text("/spec/deploymentName");
  if (deploymentName == null) return Outcome.terminal("the Foo has no spec.deploymentName");
  const key = new Key(request.key.namespace, deploymentName);
  const present = deployments.get(key);
  if (present != null && !present.isControlledBy(foo)) {
    const note = `Deployment ${key.toString()} already exists and is not managed by Foo ${request.key.toString()}`;
    eventWarning(foo, "ErrResourceExists", "Sync", note);
    return Outcome.retry(note);
  }

  const isDesired = present != null && hasDesiredState(present, foo);
  let deployment = present;
  if (!isDesired) {
    const written = present == null
      ? client.create(newDeployment(foo, key))
      : client.patch(DEPLOYMENT, key, PatchType.Strategic, desiredState(foo));
    const error = written.error;
    if (error != null) return Outcome.retry(`write Deployment ${key.toString()}: ${error.toString()}`);
    deployment = written.object;
  }

  const available = textOr(deployment!.text("/status/availableReplicas"), "0");
  const isReported = foo.text("/status/availableReplicas") == available;
  if (!isReported) {
    const body = `{"status": {"availableReplicas": ${available}}}`;
    const error = client.patch(FOO, request.key, PatchType.Merge, body, "status").error;
    if (error != null) return Outcome.retry(`update the status: ${error.toString()}`);
  }
  if (!isDesired || !isReported) {
    log(Level.Info, "synced", [new Pair("deployment", key.toString())]);
    eventNormal(foo, "Synced", "Sync", "Foo synced successfully");
  }
  return Outcome.done();
}

function textOr(text: string | null, absent: string): string {
  return text == null ? absent : text;
}

/** Returns whether the Deployment has the fields that the Foo determines. */
function hasDesiredState(deployment: KubeObject, foo: KubeObject): bool {
  const replicas = foo.text("/spec/replicas");
  return (replicas == null || deployment.text("/spec/replicas") == replicas)
    && deployment.text("/spec/template/spec/containers/0/image") == IMAGE;
}

/** Returns a patch with the fields that the Foo determines. The others stay as they are; containers are merged by name. */
function desiredState(foo: KubeObject): string {
  const replicas = foo.text("/spec/replicas");
  const containers = `[{"name": "nginx", "image": ${quote(IMAGE)}}]`;
  return `{"spec": {${replicas == null ? "" : `"replicas": ${replicas}, `}"template": {"spec": {"containers": ${containers}}}}}`;
}

function newDeployment(foo: KubeObject, key: Key): string {
  const name = quote(foo.key.name);
  const labels = `{"app": "nginx", "controller": ${name}}`;
  const owner = `{"apiVersion": ${quote(FOO.apiVersion)}, "kind": "Foo", "name": ${name}, "uid": ${quote(foo.uid)}, "controller": true, "blockOwnerDeletion": true}`;
  return `{
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": ${quote(key.name)}, "namespace": ${quote(key.namespace)}, "ownerReferences": [${owner}]},
    "spec": {
      "replicas": ${textOr(foo.text("/spec/replicas"), "1")},
      "selector": {"matchLabels": ${labels}},
      "template": {"metadata": {"labels": ${labels}}, "spec": {"containers": [{"name": "nginx", "image": ${quote(IMAGE)}}]}}
    }
  }`;
}
