// The objects of the fake cluster.

import { ObjectKey } from "../key.js";

/** Returns an error as the contract's imports throw it. */
export function refusal(tag, val) {
  return Object.assign(new Error(`${tag} (see error.payload)`), { payload: { tag, val } });
}

/** The objects by kind and key. Every write assigns a new resource version. */
export class Store {
  #objects = new Map();
  #version = 1;

  /** Stores an object, with the metadata that a server would add. */
  put(object) {
    const stored = structuredClone(object);
    stored.metadata = { ...stored.metadata };
    stored.metadata.uid ??= `uid-${this.#version}`;
    this.#version += 1;
    stored.metadata.resourceVersion = `${this.#version}`;
    this.#objects.set(slot(stored, ObjectKey.of(stored)), stored);
    return stored;
  }

  find(type, key) {
    return this.#objects.get(slot(type, key));
  }

  /** Like `find`, but throws `not-found`. */
  expect(type, key) {
    const found = this.find(type, key);
    if (found === undefined) throw refusal("not-found", `${type.kind} "${ObjectKey.of(key)}" not found`);
    return found;
  }

  /** Returns objects, ordered by namespace, then name. */
  ofKind({ apiVersion, kind }, { namespace = "", labelSelector = "" } = {}) {
    const fits = selector(labelSelector);
    const found = [...this.#objects.values()].filter(
      (object) =>
        object.apiVersion === apiVersion &&
        object.kind === kind &&
        (namespace === "" || object.metadata.namespace === namespace) &&
        fits(object.metadata.labels ?? {}),
    );
    return found.sort((a, b) => compare(`${ObjectKey.of(a)}`, `${ObjectKey.of(b)}`));
  }

  create(manifest) {
    if (this.find(manifest, manifest) !== undefined) {
      throw refusal("already-exists", `${manifest.kind} "${ObjectKey.of(manifest)}" already exists`);
    }
    return this.put(manifest);
  }

  update(manifest, subresource) {
    const present = this.expect(manifest, manifest);
    const { resourceVersion } = manifest.metadata;
    if (resourceVersion !== undefined && resourceVersion !== present.metadata.resourceVersion) {
      throw refusal("conflict", { message: "the object has been modified", resourceVersion: present.metadata.resourceVersion });
    }
    if (subresource === "") return this.#replace({ ...manifest, metadata: { ...manifest.metadata, uid: present.metadata.uid } });
    return this.put({ ...present, [subresource]: manifest[subresource] });
  }

  /** Removes an object whose deletion was requested, once it has no finalizers. */
  #replace(object) {
    if (object.metadata.deletionTimestamp === undefined || object.metadata.finalizers?.length > 0) return this.put(object);
    this.#objects.delete(slot(object, ObjectKey.of(object)));
    return object;
  }

  delete(type, key, { uid, resourceVersion }) {
    const { metadata } = this.expect(type, key);
    if ((uid !== "" && uid !== metadata.uid) || (resourceVersion !== "" && resourceVersion !== metadata.resourceVersion)) {
      throw refusal("conflict", { message: "a precondition does not hold", resourceVersion: metadata.resourceVersion });
    }
    if (metadata.finalizers?.length > 0) metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
    else this.#objects.delete(slot(type, key));
  }
}

function slot({ apiVersion, kind }, key) {
  return `${apiVersion} ${kind} ${ObjectKey.of(key)}`;
}

function compare(a, b) {
  return a < b ? -1 : Number(a > b);
}

/** Applies a JSON Merge Patch (RFC 7386). */
export function merge(target, patch) {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const merged = typeof target === "object" && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = merge(merged[key], value);
  }
  return merged;
}

/** Returns the value at a JSON pointer (RFC 6901). */
export function at(object, pointer) {
  let value = object;
  for (const step of pointer.split("/").slice(1)) value = value?.[step.replaceAll("~1", "/").replaceAll("~0", "~")];
  return value;
}

/** Returns the values at a simple JSONPath: `{.spec.containers[*].image}`. */
export function atPath(object, path) {
  const steps = path.replace(/^\{\.?|\}$/g, "").split(".");
  let values = [object];
  for (const step of steps) {
    const [, name, every] = /^([^[\]]*)(\[\*\])?$/.exec(step) ?? [];
    if (name === undefined) throw new Error(`the fake host supports {.a.b} and {.a[*].b}, not ${path}`);
    values = values.map((value) => value?.[name]).filter((value) => value !== undefined && value !== null);
    if (every) values = values.flat();
  }
  return values.map(String);
}

/** Compiles a label selector (equality, `in` and presence) to a function. */
function selector(text) {
  const requirements = text.split(/,(?![^(]*\))/).filter((part) => part.trim() !== "");
  const tests = requirements.map((part) => {
    const found = /^\s*(!?)([\w./-]+)\s*(?:(==|=|!=)\s*([\w.-]*)|(in|notin)\s*\(([^)]*)\))?\s*$/.exec(part);
    if (found === null) throw new Error(`the label selector ${text} does not parse`);
    const [, absent, key, comparison, value, set, members] = found;
    const wanted = (set === undefined ? [value] : members.split(",")).map((member) => member?.trim());
    if (comparison === undefined && set === undefined) return (labels) => (labels[key] === undefined) === (absent === "!");
    const negative = comparison === "!=" || set === "notin";
    return (labels) => wanted.includes(labels[key]) !== negative;
  });
  return (labels) => tests.every((test) => test(labels));
}
