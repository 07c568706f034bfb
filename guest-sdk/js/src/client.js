// Requests to the API server. Each function sends one request and waits for the answer. The request must be covered by the descriptor's
// `writes` and by the operator's grant. No function retries: do not catch the error, and the host retries with backoff.

import { client as wit } from "#host";
import { asking, Conflict } from "./errors.js";
import { same } from "./json.js";
import { ObjectKey, witKey, witType } from "./key.js";
import { witLimit } from "./number.js";
import { KubeObject } from "./object.js";

/** Returns the current object from the server. Reads of the cache send no request. */
export function get(type, key, { subresource = "" } = {}) {
  return answer(() => wit.get(witType(type), witKey(key), subresource));
}

/** Yields all current objects from the server. Requests the next page when the loop reaches it. */
export function* list(type, query = {}) {
  let cursor = query.cursor;
  do {
    const found = page(type, { ...query, cursor });
    yield* found.items;
    cursor = found.next;
  } while (cursor !== undefined);
}

/** Returns one page. An expired cursor throws an `OtherStatus` with code 410: start again without a cursor. */
export function page(type, { namespace = "", labelSelector = "", fieldSelector = "", limit = 0, cursor = "" } = {}) {
  const options = { namespace, labelSelector, fieldSelector, limit: witLimit(limit), cursor };
  const { items, next } = asking(() => wit.list(witType(type), options));
  return { items: items.map((raw) => new KubeObject(raw)), next: next === "" ? undefined : next };
}

/** Creates an object and returns it as stored. With a subresource, such as `eviction`, posts the manifest to it. */
export function create(manifest, { subresource = "" } = {}) {
  return answer(() => wit.create(JSON.stringify(manifest), subresource));
}

/** Replaces an object with a changed copy of what was read, and returns it as stored. Its `resourceVersion` protects concurrent changes. */
export function update(manifest, { subresource = "" } = {}) {
  return answer(() => wit.update(JSON.stringify(manifest), subresource));
}

/** Like `update`, but replaces only the status; the server ignores the rest of the manifest. */
export function updateStatus(manifest) {
  return update(manifest, { subresource: "status" });
}

const PATCH_TYPES = new Set(["json", "merge", "strategic", "apply"]);

/** Patches an object and returns it as stored. The body is a merge patch unless `type` says otherwise. */
export function patch(target, key, body, { type = "merge", subresource = "", ...applyOptions } = {}) {
  if (!PATCH_TYPES.has(type)) {
    throw new TypeError(`a patch is one of ${[...PATCH_TYPES].join(", ")}, not ${type}`);
  }
  const patchType = type === "apply" ? { tag: type, val: applying(applyOptions) } : { tag: type };
  return answer(() => wit.patch(witType(target), witKey(key), patchType, JSON.stringify(body), subresource));
}

/**
 * Applies an object server-side and returns it as stored: the plugin owns the fields that are set, and gives up those that it leaves out.
 * Creates the object when it does not exist. `force` takes over fields that other managers own, instead of a conflict.
 */
export function apply(manifest, { subresource = "", ...applyOptions } = {}) {
  // A version would be a precondition, and the server rejects managed fields in an apply.
  const { resourceVersion, managedFields, ...metadata } = manifest.metadata ?? {};
  return patch(manifest, ObjectKey.of(manifest), { ...manifest, metadata }, { type: "apply", subresource, ...applyOptions });
}

/** Requests an object's deletion; finalizers may keep it in existence afterwards. */
function remove(type, key, { propagation = "background", uid = "", resourceVersion = "" } = {}) {
  if (!["background", "foreground", "orphan"].includes(propagation)) {
    throw new TypeError(`propagation is background, foreground or orphan, not ${propagation}`);
  }
  asking(() => wit["delete"](witType(type), witKey(key), { propagation, uid, resourceVersion }));
}
export { remove as delete };

/**
 * Creates or updates an object, as controller-runtime's `CreateOrUpdate` does. `present` is the object that the cache holds; when it is
 * undefined, the object is created from `absent()`. `mutate` then brings the object to its desired state. Nothing is sent when `mutate`
 * changes nothing in a present object; the order of members is no change. Returns `{ object, change }`, where `change` is `created`, `updated` or `unchanged`.
 */
export function createOrUpdate(present, absent, mutate = () => {}) {
  if (present === undefined) {
    const object = absent();
    mutate(object);
    return { object: create(object).json(), change: "created" };
  }
  const before = JSON.stringify(present);
  const object = JSON.parse(before);
  mutate(object);
  const after = JSON.stringify(object);
  if (after === before || same(JSON.parse(after), JSON.parse(before))) return { object, change: "unchanged" };
  return { object: update(object).json(), change: "updated" };
}

/** The number of attempts of client-go's `retry.DefaultRetry`. */
const ATTEMPTS = 5;

/**
 * Repeats `attempt` while it throws a `Conflict`, up to five attempts in total. Each attempt must read the object again with `get`, because
 * the cache may still hold the state that conflicted.
 */
export function retryOnConflict(attempt) {
  for (let left = ATTEMPTS; ; left -= 1) {
    try {
      return attempt();
    } catch (error) {
      if (!(error instanceof Conflict) || left === 1) throw error;
    }
  }
}

function applying({ fieldManager = "", force = false }) {
  return { fieldManager, force };
}

function answer(request) {
  return new KubeObject(asking(request));
}
