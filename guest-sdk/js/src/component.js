// Between the contract and the author's plugin: what the component exports. The build's entry module calls `component`.

import "./console.js";
import { Context } from "./context.js";
import { ApiError, Retry, Terminal } from "./errors.js";
import { inCall } from "./handles.js";
import { ObjectKey } from "./key.js";
import { Notification } from "./notification.js";
import { witDelay } from "./number.js";
import { KubeObject } from "./object.js";
import { isPlugin, refuseAsync } from "./plugin.js";
import { errorText, withPlaces } from "./stack.js";

const HEADER = { apiVersion: "pilothouse.dev/v1alpha1", kind: "Plugin" };

/** The implementations of the exported interfaces, by the names that the component has them under. */
export function component(plugin) {
  if (!isPlugin(plugin)) {
    throw new TypeError("the default export is no plugin: write `export default definePlugin({ … })`");
  }
  return {
    plugin: { describe: (config) => describe(plugin, config) },
    reconcile: { reconcile: (request) => inCall(() => reconcile(plugin, request)) },
    observe: { observe: (notifications, batch) => inCall(() => observe(plugin, notifications, batch)) },
    index: { values: (index, object) => inCall(() => values(plugin, index, object)) },
  };
}

function describe(plugin, config) {
  try {
    const described = typeof plugin.describe === "function" ? plugin.describe(JSON.parse(config)) : plugin.describe;
    refuseAsync("describe", described);
    return JSON.stringify({ ...HEADER, ...described });
  } catch (error) {
    // The contract's error is a text. A refusal is for the operator, who has no use for the place in the code.
    throw isDeliberate(error) || error?.constructor === Error ? error.message : errorText(error);
  }
}

function reconcile(plugin, request) {
  const told = {
    ...request,
    key: ObjectKey.of(request.key),
    extra: Object.fromEntries(request.extra.map(({ key, value }) => [key, value])),
  };
  try {
    return outcome(plugin.reconcile(new Context(told), told));
  } catch (error) {
    throw failure(error);
  }
}

function outcome(answer) {
  refuseAsync("reconcile", answer);
  if (answer === undefined || answer === null) return { tag: "done" };
  if (answer.requeueAfter === undefined) {
    throw new TypeError(`reconcile answers nothing, or { requeueAfter: milliseconds }, not ${JSON.stringify(answer)}`);
  }
  return { tag: "requeue-after", val: witDelay(answer.requeueAfter) };
}

function observe(plugin, notifications, batch) {
  const told = notifications.map((notification, position) => new Notification(notification, batch, position));
  try {
    refuseAsync("observe", plugin.observe(new Context(), told));
  } catch (error) {
    if (isDeliberate(error) || error instanceof ApiError) throw failure(error);
    // What an observer has learnt may be half of what it was told: a new instance is told everything.
    throw withPlaces(error);
  } finally {
    batch[Symbol.dispose]?.();
  }
}

function values(plugin, index, object) {
  try {
    const compute = plugin.indexes[index];
    if (compute === undefined) {
      throw new TypeError(`the plugin computes no index ${index}; it has ${Object.keys(plugin.indexes).join(", ")}`);
    }
    const found = compute(new KubeObject(object));
    refuseAsync(`the index ${index}`, found);
    if (found === undefined || found === null) return [];
    if (typeof found[Symbol.iterator] !== "function") {
      throw new TypeError(`the index ${index} answered ${typeof found}; answer the values as an array of strings, or one string`);
    }
    return typeof found === "string" ? [found] : Array.from(found, String);
  } catch (error) {
    throw withPlaces(error);
  }
}

function failure(error) {
  const text = isDeliberate(error) ? error.message : errorText(error);
  return { tag: error instanceof Terminal ? "terminal" : "retry", val: text.toWellFormed() };
}

function isDeliberate(error) {
  return error instanceof Retry || error instanceof Terminal;
}
