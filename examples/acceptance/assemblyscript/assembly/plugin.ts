// The acceptance plugin in AssemblyScript, as specified by ../../README.md. It has no SDK, and uses the bindings of the sample controller.

import {
  description, KubeObject, Level, log, Notification, Outcome, Pair, Request, runIndex, runObserve, runReconcile, Watch,
} from "../../../sample-controller-assemblyscript/assembly/pilothouse";
import * as cache from "./cache";
import * as client from "./client";
import * as effects from "./effects";
import * as outcomes from "./outcomes";
import { logResult, Operation, orNone, Script } from "./script";

// The host calls these, too: `cabi_realloc` for memory, and the others when it has read the result of an export.
export {
  cabi_realloc,
  endCall as cabi_post_ph_describe,
  endCall as cabi_post_ph_reconcile,
  endCall as cabi_post_ph_observe,
  endCall as cabi_post_ph_values,
} from "../../../sample-controller-assemblyscript/assembly/pilothouse";

const DESCRIPTOR = `{
  "apiVersion": "pilothouse.dev/v1alpha1",
  "kind": "Plugin",
  "name": "acceptance-assemblyscript",
  "version": "0.1.0",
  "watches": [
    {"name": "scripts", "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "test=acceptance", "trigger": "self"},
    {"name": "items", "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "test=acceptance-item", "notify": true,
      "indexes": [{"name": "byGroup", "field": "{.data.group}"}, {"name": "byWord", "computed": true}]},
    {"name": "namespaces", "apiVersion": "v1", "kind": "Namespace"},
    {"name": "deployments", "apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": "test=acceptance-item"}
  ],
  "writes": [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "update", "patch", "delete"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "deployments/status", "deployments/scale"],
      "verbs": ["get", "list", "create", "update", "patch", "delete"]}
  ]
}`;

const scripts = new Watch("scripts");

const operations = new Map<string, Operation>();
cache.register(operations);
client.register(operations);
effects.register(operations);
outcomes.register(operations);

export function ph_describe(config: usize, configLength: usize): usize {
  const fail = failure(String.UTF8.decodeUnsafe(config, configLength));
  return fail.length ? description(fail, true) : description(DESCRIPTOR);
}

/** Returns the member `fail` of the configuration, or "". Its text has no escapes. */
function failure(config: string): string {
  const name = '"fail":"';
  const start = config.indexOf(name);
  return start < 0 ? "" : config.substring(start + name.length, config.indexOf('"', start + name.length));
}

export function ph_reconcile(
  watch: usize, watchLength: usize, namespace: usize, namespaceLength: usize, name: usize, nameLength: usize,
  reasons: usize, reasonCount: usize, attempt: u32, extra: usize, extraCount: usize,
): usize {
  return runReconcile(runScript, watch, watchLength, namespace, namespaceLength, name, nameLength, reasons, reasonCount, attempt);
}

function runScript(request: Request): Outcome {
  const object = scripts.get(request.key);
  if (object == null) return Outcome.done();
  const script = new Script(request, object);
  if (!operations.has(script.op)) return Outcome.terminal("no operation " + script.op);
  const run = operations.get(script.op);
  const answer = run(script);
  const text = answer.value;
  if (text != null) logResult(script.op, text);
  return answer.outcome;
}

export function ph_observe(notifications: usize, count: usize, batch: i32): usize {
  return runObserve(logNotifications, notifications, count, batch);
}

function logNotifications(notifications: Notification[]): Outcome {
  // In the order of `Change`.
  const changes = ["added", "updated", "deleted", "resync"];
  for (let i = 0; i < notifications.length; i++) {
    const notification = notifications[i];
    const before = notification.before(), after = notification.after();
    if (after != null && orNone(after.text("/data/value"), "") == "trap") throw new Error("asked to trap");
    log(Level.Info, "observed", [
      new Pair("watch", notification.watch),
      new Pair("key", notification.key.toString()),
      new Pair("change", changes[notification.change]),
      new Pair("initial", notification.isInitial ? "true" : "false"),
      new Pair("unknown", notification.isFinalStateUnknown ? "true" : "false"),
      new Pair("before", before == null ? "-" : orNone(before.text("/data/value"), "-")),
      new Pair("after", orNone(notification.afterField("/data/value"), "-")),
    ]);
  }
  return Outcome.done();
}

export function ph_values(index: usize, indexLength: usize, object: i32): usize {
  return runIndex(words, index, indexLength, object);
}

function words(index: string, object: KubeObject): string[] {
  const text = index == "byWord" ? orNone(object.text("/data/words"), "") : "";
  const found = text.split(" ").filter((word) => word.length > 0);
  if (found.includes("trap")) throw new Error("asked to trap");
  return found;
}
