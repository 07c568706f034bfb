// Operations on the request, outcomes, faults and finalizers.

import { Kind, Outcome, PatchType, Reason, Watch } from "../../../sample-controller-assemblyscript/assembly/pilothouse";
import { patch } from "../../../sample-controller-assemblyscript/assembly/pilothouse/client";
import { Answer, logResult, Operation, Script, silent, value } from "./script";

const CONFIG_MAP = new Kind("v1", "ConfigMap");
const FINALIZER = "acceptance.pilothouse.dev/cleanup";

/** In the order of `Reason`. */
const REASONS = ["created", "updated", "deleted", "resync", "requeue", "retry", "startup", "other"];

export function register(operations: Map<string, Operation>): void {
  operations.set("info", info);
  operations.set("requeue", requeue);
  operations.set("retry", retry);
  operations.set("terminal", (script) => silent(Outcome.terminal(script.a)));
  operations.set("trap", trap);
  operations.set("loop", loop);
  operations.set("allocate", allocate);
  operations.set("unknown-watch", unknownWatch);
  operations.set("finalizer", finalizer);
}

function info(script: Script): Answer {
  const request = script.request;
  const reasons = request.reasons.map<string>((reason) => REASONS[reason]);
  reasons.sort();
  return value(`${request.watch} ${request.key.toString()} attempt=${request.attempt.toString()} reasons=${reasons.join(",")}`);
}

function requeue(script: Script): Answer {
  if (script.request.reasons.includes(Reason.Requeue)) return value("requeued");
  return silent(Outcome.requeueAfter(U32.parseInt(script.a)));
}

function retry(script: Script): Answer {
  const attempt = script.request.attempt;
  if (attempt >= <u32>U32.parseInt(script.a)) return value("attempt=" + attempt.toString());
  return silent(Outcome.retry(`attempt ${attempt.toString()} of ${script.a}`));
}

function trap(script: Script): Answer {
  if (script.request.attempt == 0) throw new Error(script.a);
  return value("recovered");
}

/** A global, so that the compiler does not remove the loop that changes it. */
let turns: u32 = 0;

function loop(script: Script): Answer {
  while (script.request.attempt == 0) turns++;
  return value("recovered");
}

function allocate(script: Script): Answer {
  const blocks: ArrayBuffer[] = [];
  while (script.request.attempt == 0) blocks.push(new ArrayBuffer(1 << 20));
  return value("recovered");
}

function unknownWatch(script: Script): Answer {
  if (script.request.attempt == 0) new Watch("nonesuch").get(script.request.key);
  return value("recovered");
}

function finalizer(script: Script): Answer {
  const isHeld = script.object.text("/metadata/finalizers/0") == FINALIZER;
  const isDeleted = script.object.deletionTimestamp != null;
  if (isDeleted && !isHeld) return silent(Outcome.done());
  if (isDeleted) logResult(script.op, "cleaned");
  if (isDeleted || !isHeld) {
    const finalizers = isDeleted ? "" : `"${FINALIZER}"`;
    const error = patch(CONFIG_MAP, script.request.key, PatchType.Merge, `{"metadata":{"finalizers":[${finalizers}]}}`).error;
    if (error != null) return silent(Outcome.retry(`patch the finalizers: ${error.toString()}`));
  }
  return isDeleted ? silent(Outcome.done()) : value("held");
}
