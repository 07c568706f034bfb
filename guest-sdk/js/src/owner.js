// Owner references: who created an object, and whose deletion deletes it. All of it works on parsed objects.

/**
 * A controlling reference to `owner`, for `metadata.ownerReferences` of what it creates. The garbage collector deletes the object
 * after its owner.
 */
export function controllerOwnerRef(owner) {
  const { apiVersion, kind, metadata: { name, uid } = {} } = owner;
  if (!apiVersion || !kind || !name || !uid) {
    throw new TypeError(`${kind ?? "an object"} without apiVersion, kind, name and uid cannot own anything: was it read from the server?`);
  }
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** The reference to the object that controls this one; undefined when there is none. */
export function controllerOf(object) {
  return object.metadata?.ownerReferences?.find((owner) => owner.controller === true);
}

/** Whether `owner` controls `object`: by UID, since an owner that was deleted and made again owns nothing yet. */
export function isControlledBy(object, owner) {
  const uid = owner.metadata?.uid;
  return uid !== undefined && controllerOf(object)?.uid === uid;
}

/** Another object controls this one already. */
export class AlreadyControlled extends Error {
  constructor(object, { kind, name }) {
    super(`${object.metadata.name ?? "the object"} is already controlled by ${kind} ${name}`);
    this.name = "AlreadyControlled";
  }
}

/**
 * Makes `owner` the controller of `object`. Setting it again brings the reference up to date; where another object controls it,
 * throws `AlreadyControlled`: two controllers would fight.
 */
export function setController(object, owner) {
  const reference = controllerOwnerRef(owner);
  object.metadata ??= {};
  const other = controllerOf(object);
  if (other !== undefined && other.uid !== reference.uid) throw new AlreadyControlled(object, other);
  const rest = (object.metadata.ownerReferences ?? []).filter((present) => present.uid !== reference.uid);
  object.metadata.ownerReferences = [...rest, reference];
}
