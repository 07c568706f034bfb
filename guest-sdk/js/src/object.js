import { opened } from "./handles.js";
import { ObjectKey } from "./key.js";

/** The handles that parsed objects were read from: recording an Event requires the handle of its object. */
const origins = new WeakMap();

/**
 * A handle to one immutable state of an object that the host holds: what you read never changes while you hold the handle.
 *
 * Reading a field copies only that field. The handle is closed when the call ends, unless you `keep()` it.
 */
export class KubeObject {
  #raw;
  #kept = false;

  constructor(raw) {
    this.#raw = raw;
    opened(this, raw);
  }

  get #handle() {
    if (this.#raw === undefined) {
      throw new Error("this object's handle is closed; read what you need during the call, or keep() the object");
    }
    return this.#raw;
  }

  /** The object's namespace and name. */
  get key() {
    const { namespace, name } = this.#handle.key();
    return new ObjectKey(namespace, name);
  }

  /** The API version, spelled as in a manifest: `apps/v1`. */
  get apiVersion() {
    return this.#handle.apiVersion();
  }

  /** The kind, spelled as in a manifest: `Deployment`. */
  get kind() {
    return this.#handle.kind();
  }

  /** `metadata.uid`; "" when it is missing. */
  get uid() {
    return this.#handle.uid();
  }

  /** `metadata.resourceVersion`, an opaque string. */
  get resourceVersion() {
    return this.#handle.resourceVersion();
  }

  /** `metadata.generation`; 0 when it is missing. */
  get generation() {
    return this.#handle.generation();
  }

  /** All labels. */
  get labels() {
    return Object.fromEntries(this.#handle.labels().map(({ key, value }) => [key, value]));
  }

  /** Returns the value of one label, or undefined. */
  label(key) {
    return this.#handle.label(key) ?? undefined;
  }

  /** Returns the value of one annotation, or undefined. */
  annotation(key) {
    return this.#handle.annotation(key) ?? undefined;
  }

  /** When deletion was requested (RFC 3339), while finalizers keep the object. */
  get deletionTimestamp() {
    return this.#handle.deletionTimestamp() ?? undefined;
  }

  /** The owner that controls the object: `apiVersion`, `kind`, `name` and `uid`. */
  get controller() {
    return this.#handle.controller() ?? undefined;
  }

  /** Returns the value at a JSON pointer (RFC 6901), such as `/spec/replicas`; undefined when nothing is there. */
  field(pointer) {
    return parsed(this.#handle.field(pointer));
  }

  /** Returns the value at a JSON pointer as text: a string as it is, any other value as JSON; undefined when nothing is there. */
  text(pointer) {
    return this.#handle.text(pointer) ?? undefined;
  }

  /** Returns the values at several JSON pointers (at most 64) in one call: `const [replicas, paused] = web.fields("/spec/replicas", "/spec/paused")`. */
  fields(...pointers) {
    return this.#handle.fields(pointers).map(parsed);
  }

  /** Returns the texts at several JSON pointers (at most 64) in one call. */
  texts(...pointers) {
    return this.#handle.texts(pointers).map((text) => text ?? undefined);
  }

  /** Returns a parsed copy of the whole object. To read a few values, prefer `field`. */
  json() {
    const value = JSON.parse(this.#handle.json());
    origins.set(value, this);
    return value;
  }

  /** Returns the whole object as the host's JSON text. */
  jsonText() {
    return this.#handle.json();
  }

  /** Keeps the handle open after the call, as long as you hold this object. */
  keep() {
    this.#kept = true;
    return this;
  }

  /** Whether `keep()` was called. */
  get isKept() {
    return this.#kept;
  }

  /** Closes the handle before the call ends. */
  close() {
    this.#raw?.[Symbol.dispose]();
    this.#raw = undefined;
  }

  [Symbol.dispose]() {
    this.close();
  }

  toJSON() {
    return this.json();
  }

  /** Returns a text such as `apps/v1 Deployment default/web`. */
  toString() {
    return `${this.apiVersion} ${this.kind} ${this.key}`;
  }

  /** Returns the handle, for the SDK's own calls. */
  static raw(object) {
    return object.#handle;
  }
}

/** Returns the handle that a parsed object was read from, if it is still open. */
export function originOf(value) {
  return origins.get(value);
}

/** Parses JSON of the host; undefined for undefined. */
export function parsed(json) {
  return json === null || json === undefined ? undefined : JSON.parse(json);
}
