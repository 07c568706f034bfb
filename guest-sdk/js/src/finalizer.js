// Finalizers: cleaning up outside the cluster before an object goes.

import * as client from "./client.js";
import { NotFound } from "./errors.js";
import { ObjectKey } from "./key.js";

/**
 * Runs `apply` while the object lives, `cleanup` when it is being deleted, and keeps the finalizer `name` accordingly: it is there
 * before the first `apply`, and goes after a `cleanup` that does not throw. `name` looks like a qualified label key:
 * `example.com/cleanup`. Answers what the function that ran answered.
 *
 * The plugin must be allowed to patch the object. A `Conflict` means that it changed meanwhile; the retry sees it.
 */
export function run(object, name, { apply, cleanup }) {
  const { finalizers = [], deletionTimestamp } = object.metadata;
  const held = finalizers.includes(name);
  if (deletionTimestamp === undefined) {
    if (!held) change(object, [...finalizers, name]);
    return apply();
  }
  // Being deleted, and not held by this finalizer: nothing may be started any more.
  if (!held) return undefined;
  const outcome = cleanup();
  change(object, finalizers.filter((present) => present !== name));
  return outcome;
}

/**
 * A merge patch replaces the list whole, so it names the version that the list was read from: a change by somebody else in between is a
 * conflict, not lost.
 */
function change(object, finalizers) {
  const { resourceVersion, deletionTimestamp } = object.metadata;
  try {
    client.patch(object, ObjectKey.of(object), { metadata: { finalizers, resourceVersion } });
  } catch (error) {
    // Somebody else removed the last finalizer: it is gone, as intended.
    if (!(error instanceof NotFound && deletionTimestamp !== undefined)) throw error;
  }
}
