/** The name of an object inside one watch. */
export class ObjectKey {
  /** @param {string} namespace "" for a cluster-scoped object */
  constructor(namespace, name) {
    if (typeof namespace !== "string" || typeof name !== "string") {
      throw new TypeError(`a key is a namespace and a name, both strings, not ${namespace} and ${name}`);
    }
    this.namespace = namespace;
    this.name = name;
  }

  /** The key of anything that has a name: a key, an object as JSON, a handle. */
  static of(value) {
    if (value instanceof ObjectKey) return value;
    if (value?.key instanceof ObjectKey) return value.key;
    const { namespace = "", name } = value?.metadata ?? value ?? {};
    return new ObjectKey(namespace, name);
  }

  /** Another name in the same namespace. */
  sibling(name) {
    return new ObjectKey(this.namespace, name);
  }

  /** Whether both name the same object. */
  equals(other) {
    return this.namespace === (other.namespace ?? "") && this.name === other.name;
  }

  /** `namespace/name`, or `name` for cluster scope. */
  toString() {
    return this.namespace === "" ? this.name : `${this.namespace}/${this.name}`;
  }
}

/** What the contract takes for a key. */
export function witKey(value) {
  const { namespace, name } = ObjectKey.of(value);
  return { namespace, name };
}

/** What the contract takes for a kind: of anything that has `apiVersion` and `kind`. */
export function witType(value) {
  const { apiVersion, kind } = value ?? {};
  if (typeof apiVersion !== "string" || typeof kind !== "string") {
    throw new TypeError(`a kind is named by apiVersion and kind, both strings, not ${apiVersion} and ${kind}`);
  }
  return { apiVersion, kind };
}
