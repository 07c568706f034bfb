// Finalizers: cleanup that must happen before an object is deleted.

import * as client from "./client.js";
import { NotFound } from "./errors.js";
import { ObjectKey } from "./key.js";

/**
 * Calls `apply` while the object exists and `cleanup` once it is being deleted, and maintains the finalizer `name`: it is added before the
 * first `apply` and removed after a successful `cleanup`. `name` has the form of a qualified label key: `example.com/cleanup`. Returns what
 * the called function returned.
 *
 * Both functions receive the object, with the finalizer. Use this one from then on: adding the finalizer changes the resource version, so an
 * update of the argument itself would conflict.
 *
 * The plugin must be allowed to patch the object. A `Conflict` means that the object changed in the meantime; the retry sees the change.
 */
export function run(object, name, { apply, cleanup }) {
  const { finalizers = [], deletionTimestamp } = object.metadata;
  const hasFinalizer = finalizers.includes(name);
  if (deletionTimestamp === undefined) {
    return apply(hasFinalizer ? object : change(object, [...finalizers, name]));
  }
  // The object is being deleted without this finalizer: no new work may be started.
  if (!hasFinalizer) return undefined;
  const outcome = cleanup(object);
  try {
    change(object, finalizers.filter((present) => present !== name));
  } catch (error) {
    // Another client removed the last finalizer, and the object is gone, as intended.
    if (!(error instanceof NotFound)) throw error;
  }
  return outcome;
}

/**
 * Replaces the finalizers by a merge patch, and returns the object as stored. The patch includes the resource version that the list was read
 * at, so that a concurrent change causes a conflict instead of being lost.
 */
function change(object, finalizers) {
  const { resourceVersion } = object.metadata;
  return client.patch(object, ObjectKey.of(object), { metadata: { finalizers, resourceVersion } }).json();
}
