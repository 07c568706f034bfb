/** Identifies an object within a watch. */
export class ObjectKey {
  /** @param {string} namespace "" for a cluster-scoped object */
  constructor(namespace, name) {
    if (typeof namespace !== "string" || typeof name !== "string") {
      throw new TypeError(`namespace and name of a key must be strings, not ${namespace} and ${name}`);
    }
    this.namespace = namespace;
    this.name = name;
  }

  /** Returns the key of a key, an object as JSON, or a handle. */
  static of(value) {
    if (value instanceof ObjectKey) return value;
    if (value?.key instanceof ObjectKey) return value.key;
    const { namespace = "", name } = value?.metadata ?? value ?? {};
    if (name === undefined) {
      throw new TypeError(value?.kind === undefined ? "the key has no name" : `the object of kind ${value.kind} has no metadata.name`);
    }
    return new ObjectKey(namespace, name);
  }

  /** Returns the key of another name in the same namespace. */
  sibling(name) {
    return new ObjectKey(this.namespace, name);
  }

  /** Returns whether both are keys of the same object. */
  equals(other) {
    return this.namespace === (other.namespace ?? "") && this.name === other.name;
  }

  /** Returns `namespace/name`, or `name` for a cluster-scoped object. */
  toString() {
    return this.namespace === "" ? this.name : `${this.namespace}/${this.name}`;
  }
}

/** Converts a key to the contract's type. */
export function witKey(value) {
  const { namespace, name } = ObjectKey.of(value);
  return { namespace, name };
}

/** Converts anything with `apiVersion` and `kind` to the contract's type. */
export function witType(value) {
  const { apiVersion, kind } = value ?? {};
  if (typeof apiVersion !== "string" || typeof kind !== "string") {
    throw new TypeError(`apiVersion and kind must be strings, not ${apiVersion} and ${kind}`);
  }
  return { apiVersion, kind };
}
