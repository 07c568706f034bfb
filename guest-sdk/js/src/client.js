// Requests to the API server. Each is one round trip, must be covered by the descriptor's `writes` and the operator's grant, and is
// not repeated by itself: let the error go, and the host tries again with backoff.

import { client as wit } from "#host";
import { asking, Conflict } from "./errors.js";
import { ObjectKey, witKey, witType } from "./key.js";
import { witLimit } from "./number.js";
import { KubeObject } from "./object.js";

/** The object as the server has it now. The cache is free by comparison. */
export function get(type, key, { subresource = "" } = {}) {
  return answer(() => wit.get(witType(type), witKey(key), subresource));
}

/** All objects as the server has them now; the next page is asked for when the loop gets there. */
export function* list(type, query = {}) {
  let cursor = query.cursor;
  do {
    const found = page(type, { ...query, cursor });
    yield* found.items;
    cursor = found.next;
  } while (cursor !== undefined);
}

/** One page. An expired cursor is an `OtherStatus` with the code 410: begin again. */
export function page(type, { namespace = "", labelSelector = "", fieldSelector = "", limit = 0, cursor = "" } = {}) {
  const options = { namespace, labelSelector, fieldSelector, limit: witLimit(limit), cursor };
  const { items, next } = asking(() => wit.list(witType(type), options));
  return { items: items.map((raw) => new KubeObject(raw)), next: next === "" ? undefined : next };
}

/** Creates the object of a manifest; with a subresource, posts to it (`eviction`). */
export function create(manifest, { subresource = "" } = {}) {
  return answer(() => wit.create(JSON.stringify(manifest), subresource));
}

/** Replaces an object by a changed copy of what was read. Its `resourceVersion` guards against changes in between. */
export function update(manifest, { subresource = "" } = {}) {
  return answer(() => wit.update(JSON.stringify(manifest), subresource));
}

/** As `update`, of the status alone; everything else in the manifest is ignored. */
export function updateStatus(manifest) {
  return update(manifest, { subresource: "status" });
}

const PATCH_TYPES = new Set(["json", "merge", "strategic", "apply"]);

/** Changes an object; the body is a merge patch unless `type` says otherwise. */
export function patch(target, key, body, { type = "merge", subresource = "", ...applyOptions } = {}) {
  if (!PATCH_TYPES.has(type)) {
    throw new TypeError(`a patch is one of ${[...PATCH_TYPES].join(", ")}, not ${type}`);
  }
  const patchType = type === "apply" ? { tag: type, val: applying(applyOptions) } : { tag: type };
  return answer(() => wit.patch(witType(target), witKey(key), patchType, JSON.stringify(body), subresource));
}

/**
 * Server-side apply: states what this plugin wants of the object, and creates it where it is absent. Fields that are left out are not
 * this plugin's. `force` takes fields over from other managers in place of a conflict.
 */
export function apply(manifest, { subresource = "", ...applyOptions } = {}) {
  // A version would be a precondition, and the server refuses managed fields in an apply.
  const { resourceVersion, managedFields, ...metadata } = manifest.metadata ?? {};
  return patch(manifest, ObjectKey.of(manifest), { ...manifest, metadata }, { type: "apply", subresource, ...applyOptions });
}

/** Asks for an object's deletion; finalizers may hold it afterwards. */
function remove(type, key, { propagation = "background", uid = "", resourceVersion = "" } = {}) {
  if (!["background", "foreground", "orphan"].includes(propagation)) {
    throw new TypeError(`propagation is background, foreground or orphan, not ${propagation}`);
  }
  asking(() => wit["delete"](witType(type), witKey(key), { propagation, uid, resourceVersion }));
}
export { remove as delete };

/**
 * Makes an object as `mutate` wants it: `present` is what the cache has; where it has nothing, `absent()` (a manifest with a
 * name, mostly) is the start. Nothing is sent when `mutate` changes nothing. Answers `{ object, change }`, with the change
 * `created`, `updated` or `unchanged`.
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
  if (JSON.stringify(object) === before) return { object, change: "unchanged" };
  return { object: update(object).json(), change: "updated" };
}

/** As many attempts as client-go's `retry.DefaultRetry` makes. */
const ATTEMPTS = 5;

/**
 * Repeats `attempt` while it throws a `Conflict`, at most five times in all. Each attempt must read the object anew (with `get`: the
 * cache may be as old as the state that just conflicted).
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
