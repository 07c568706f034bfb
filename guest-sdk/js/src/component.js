// The glue between the contract's exports and the plugin. The build's entry module calls `component`.

import "./console.js";
import { Context } from "./context.js";
import { ApiError, Retry, Terminal } from "./errors.js";
import { inCall } from "./handles.js";
import { ObjectKey } from "./key.js";
import { Notification } from "./notification.js";
import { witDelay } from "./number.js";
import { KubeObject } from "./object.js";
import { isPlugin, refuseAsync } from "./plugin.js";
import { install, useRandomOfHost } from "./random.js";
import { errorText, withPositions } from "./stack.js";
import "./structured-clone.js";

install(globalThis);

const HEADER = { apiVersion: "pilothouse.dev/v1alpha1", kind: "Plugin" };

/** Returns the implementations of the exported interfaces, by their names in the component. */
export function component(plugin) {
  if (!isPlugin(plugin)) {
    throw new TypeError("the default export is not a plugin; write `export default definePlugin({ … })`");
  }
  return {
    plugin: { describe: exported((config) => describe(plugin, config)) },
    reconcile: { reconcile: exported((request) => inCall(() => reconcile(plugin, request))) },
    observe: { observe: exported((notifications, batch) => inCall(() => observe(plugin, notifications, batch))) },
    index: { values: exported((index, object) => inCall(() => values(plugin, index, object))) },
  };
}

/** Returns a function that only an instance calls. */
function exported(work) {
  return (...values) => {
    useRandomOfHost();
    return work(...values);
  };
}

function describe(plugin, config) {
  try {
    const described = typeof plugin.describe === "function" ? plugin.describe(JSON.parse(config)) : plugin.describe;
    refuseAsync("describe", described);
    return JSON.stringify({ ...HEADER, ...described });
  } catch (error) {
    // The contract's error is a text. A rejected config is reported to the operator, who does not need the location in the code.
    throw isDeliberate(error) || error?.constructor === Error ? error.message : errorText(error);
  }
}

function reconcile(plugin, witRequest) {
  const request = {
    ...witRequest,
    key: ObjectKey.of(witRequest.key),
    extra: Object.fromEntries(witRequest.extra.map(({ key, value }) => [key, value])),
  };
  try {
    return outcome(plugin.reconcile(new Context(request), request));
  } catch (error) {
    throw failure(error);
  }
}

function outcome(returned) {
  refuseAsync("reconcile", returned);
  if (returned === undefined || returned === null) return { tag: "done" };
  if (returned.requeueAfter === undefined) {
    throw new TypeError(`reconcile must return nothing or { requeueAfter: milliseconds }, not ${JSON.stringify(returned)}`);
  }
  return { tag: "requeue-after", val: witDelay(returned.requeueAfter) };
}

function observe(plugin, witNotifications, batch) {
  const notifications = witNotifications.map((notification, position) => new Notification(notification, batch, position));
  try {
    refuseAsync("observe", plugin.observe(new Context(), notifications));
  } catch (error) {
    if (isDeliberate(error) || error instanceof ApiError) throw failure(error);
    // The observer's state may be inconsistent. A new instance receives all objects again.
    throw withPositions(error);
  } finally {
    batch[Symbol.dispose]?.();
  }
}

function values(plugin, index, object) {
  try {
    const compute = plugin.indexes[index];
    if (compute === undefined) {
      throw new TypeError(`the plugin does not compute the index ${index}; it computes ${Object.keys(plugin.indexes).join(", ")}`);
    }
    const found = compute(new KubeObject(object));
    refuseAsync(`the index ${index}`, found);
    if (found === undefined || found === null) return [];
    if (typeof found[Symbol.iterator] !== "function") {
      throw new TypeError(`the index ${index} returned ${typeof found}; return an array of strings, or one string`);
    }
    return typeof found === "string" ? [found] : Array.from(found, String);
  } catch (error) {
    throw withPositions(error);
  }
}

function failure(error) {
  const text = isDeliberate(error) ? error.message : errorText(error);
  return { tag: error instanceof Terminal ? "terminal" : "retry", val: text.toWellFormed() };
}

function isDeliberate(error) {
  return error instanceof Retry || error instanceof Terminal;
}
