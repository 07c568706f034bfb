import { opened } from "./handles.js";
import { ObjectKey } from "./key.js";

/** Which handle a parsed object came from: an Event needs the handle of what it is about. */
const origins = new WeakMap();

/**
 * One state of one object, held by the host: immutable, so what you read never changes while you hold it.
 *
 * Reading a field copies that field and nothing else. The handle closes when the call ends, unless it is kept.
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
      throw new Error("this object's handle is closed; take what you need out of it during the call, or keep() it");
    }
    return this.#raw;
  }

  /** Its namespace and name. */
  get key() {
    const { namespace, name } = this.#handle.key();
    return new ObjectKey(namespace, name);
  }

  /** As in a manifest: `apps/v1`. */
  get apiVersion() {
    return this.#handle.apiVersion();
  }

  /** As in a manifest: `Deployment`. */
  get kind() {
    return this.#handle.kind();
  }

  /** `metadata.uid`; "" for an object that has none. */
  get uid() {
    return this.#handle.uid();
  }

  /** `metadata.resourceVersion`: opaque. */
  get resourceVersion() {
    return this.#handle.resourceVersion();
  }

  /** `metadata.generation`; 0 for an object that has none. */
  get generation() {
    return this.#handle.generation();
  }

  /** All labels. */
  get labels() {
    return Object.fromEntries(this.#handle.labels().map(({ key, value }) => [key, value]));
  }

  /** One label. */
  label(key) {
    return this.#handle.label(key) ?? undefined;
  }

  /** One annotation. */
  annotation(key) {
    return this.#handle.annotation(key) ?? undefined;
  }

  /** Deletion was asked for at this time (RFC 3339), and finalizers hold the object. */
  get deletionTimestamp() {
    return this.#handle.deletionTimestamp() ?? undefined;
  }

  /** The owner that controls it: `apiVersion`, `kind`, `name` and `uid`. */
  get controller() {
    return this.#handle.controller() ?? undefined;
  }

  /** The value at an RFC 6901 pointer (`/spec/replicas`); undefined when nothing is there. */
  field(pointer) {
    return parsed(this.#handle.field(pointer));
  }

  /** The text at an RFC 6901 pointer: a string as it is, any other value as JSON; undefined when nothing is there. */
  text(pointer) {
    return this.#handle.text(pointer) ?? undefined;
  }

  /** `field` at several pointers (at most 64), in one call in place of many: `const [replicas, paused] = web.fields("/spec/replicas", "/spec/paused")`. */
  fields(...pointers) {
    return this.#handle.fields(pointers).map(parsed);
  }

  /** `text` at several pointers (at most 64), in one call in place of many. */
  texts(...pointers) {
    return this.#handle.texts(pointers).map((text) => text ?? undefined);
  }

  /** The whole object, parsed: a copy of your own. Prefer `field` for a few values. */
  json() {
    const value = JSON.parse(this.#handle.json());
    origins.set(value, this);
    return value;
  }

  /** The whole object as the host's JSON text. */
  jsonText() {
    return this.#handle.json();
  }

  /** Lets the handle live on after the call, as long as you hold this object. */
  keep() {
    this.#kept = true;
    return this;
  }

  /** Whether `keep` was called. */
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

  /** `apps/v1 Deployment default/web` */
  toString() {
    return `${this.apiVersion} ${this.kind} ${this.key}`;
  }

  /** The handle, for the SDK's own calls. */
  static raw(object) {
    return object.#handle;
  }
}

/** The handle that a parsed object was read from, if that is still open. */
export function originOf(value) {
  return origins.get(value);
}

/** JSON text of the host; none is undefined. */
export function parsed(json) {
  return json === null || json === undefined ? undefined : JSON.parse(json);
}
