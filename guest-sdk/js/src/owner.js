// Owner references, by which the garbage collector deletes an object after its owner. The functions take parsed objects.

import { same } from "./json.js";

/**
 * Returns a controlling reference to `owner`, for `metadata.ownerReferences` of an object that the owner creates. The garbage collector
 * deletes the object after its owner.
 */
export function controllerOwnerRef(owner) {
  const { apiVersion, kind, metadata: { name, uid } = {} } = owner;
  if (!apiVersion || !kind || !name || !uid) {
    throw new TypeError(`${kind ?? "an object"} without apiVersion, kind, name and uid cannot own anything: was it read from the server?`);
  }
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** Returns the reference to the object's controlling owner, or undefined. */
export function controllerOf(object) {
  return object.metadata?.ownerReferences?.find((owner) => owner.controller === true);
}

/** Returns whether `owner` controls `object`. Compares UIDs, because an owner that was deleted and recreated does not own the objects of its
 * predecessor. */
export function isControlledBy(object, owner) {
  const uid = owner.metadata?.uid;
  return uid !== undefined && controllerOf(object)?.uid === uid;
}

/** Another object already controls the object. */
export class AlreadyControlled extends Error {
  constructor(object, { kind, name }) {
    super(`${object.metadata.name ?? "the object"} is already controlled by ${kind} ${name}`);
    this.name = "AlreadyControlled";
  }
}

/**
 * Makes `owner` the controller of `object`. A reference to the same owner is replaced if it differs. Throws `AlreadyControlled` when another
 * object already controls it: two controllers would fight over it.
 */
export function setController(object, owner) {
  const reference = controllerOwnerRef(owner);
  object.metadata ??= {};
  const other = controllerOf(object);
  if (other !== undefined && other.uid !== reference.uid) throw new AlreadyControlled(object, other);
  const references = (object.metadata.ownerReferences ??= []);
  const position = references.findIndex((present) => present.uid === reference.uid);
  if (position < 0) references.push(reference);
  else if (!same(references[position], reference)) references[position] = reference;
}
