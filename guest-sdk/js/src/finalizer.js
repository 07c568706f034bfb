// Finalizers: cleanup that must happen before an object is deleted.

import * as client from "./client.js";
import { NotFound } from "./errors.js";
import { ObjectKey } from "./key.js";

/**
 * Calls `apply` while the object exists and `cleanup` once it is being deleted, and maintains the finalizer `name`: it is added before the
 * first `apply` and removed after a successful `cleanup`. `name` has the form of a qualified label key: `example.com/cleanup`. Returns what
 * the called function returned.
 *
 * The plugin must be allowed to patch the object. A `Conflict` means that the object changed in the meantime; the retry sees the change.
 */
export function run(object, name, { apply, cleanup }) {
  const { finalizers = [], deletionTimestamp } = object.metadata;
  const hasFinalizer = finalizers.includes(name);
  if (deletionTimestamp === undefined) {
    if (!hasFinalizer) change(object, [...finalizers, name]);
    return apply();
  }
  // The object is being deleted without this finalizer: no new work may be started.
  if (!hasFinalizer) return undefined;
  const outcome = cleanup();
  change(object, finalizers.filter((present) => present !== name));
  return outcome;
}

/**
 * Replaces the finalizers by a merge patch. It includes the resource version that the list was read at, so that a concurrent change causes a
 * conflict instead of being lost.
 */
function change(object, finalizers) {
  const { resourceVersion, deletionTimestamp } = object.metadata;
  try {
    client.patch(object, ObjectKey.of(object), { metadata: { finalizers, resourceVersion } });
  } catch (error) {
    // Another client removed the last finalizer, and the object is gone, as intended.
    if (!(error instanceof NotFound && deletionTimestamp !== undefined)) throw error;
  }
}
