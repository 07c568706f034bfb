/** The metadata of an object. The named members are those that the SDK reads. */
export interface Metadata {
  name?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  labels?: { [key: string]: string };
  annotations?: { [key: string]: string };
  finalizers?: string[];
  deletionTimestamp?: string;
  creationTimestamp?: string;
  ownerReferences?: OwnerReference[];
  [member: string]: any;
}

/** Any object as JSON. The types of `kubernetes-types` are assignable to it. */
export interface Manifest {
  apiVersion?: string;
  kind?: string;
  metadata?: object;
}

/** An object whose type is not specified. */
export type AnyObject = any;

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

/** Identifies an object within a watch. */
export class ObjectKey {
  constructor(namespace: string, name: string);
  /** "" for a cluster-scoped object. */
  readonly namespace: string;
  readonly name: string;
  /** Returns the key of a key, an object as JSON, or a handle. */
  static of(value: KeyLike): ObjectKey;
  /** Returns the key of another name in the same namespace. */
  sibling(name: string): ObjectKey;
  equals(other: { namespace?: string; name: string }): boolean;
  /** Returns `namespace/name`, or `name` for a cluster-scoped object. */
  toString(): string;
}

/** Anything that has a key: a key, an object as JSON, or a handle. */
export type KeyLike = ObjectKey | { namespace?: string; name: string } | { metadata?: object } | KubeObject<any>;

/** A kind in one API version, spelled as in a manifest. An object of that kind is accepted too. */
export interface ObjectType {
  apiVersion?: string;
  kind?: string;
}

/** What an Event can be about: a handle, or an object as JSON that was read from the server. */
export type Regarding = KubeObject<any> | Manifest;

/**
 * A handle to one immutable state of an object that the host holds: what you read never changes while you hold the handle. Reading a field
 * copies only that field. The handle is closed when the call ends, unless you `keep()` it.
 */
export class KubeObject<T = AnyObject> {
  private constructor();
  readonly key: ObjectKey;
  /** The API version, spelled as in a manifest: `apps/v1`. */
  readonly apiVersion: string;
  /** The kind, spelled as in a manifest: `Deployment`. */
  readonly kind: string;
  readonly uid: string;
  /** `metadata.resourceVersion`, an opaque string. */
  readonly resourceVersion: string;
  /** `metadata.generation`; 0 when it is missing. */
  readonly generation: number;
  readonly labels: { [key: string]: string };
  label(key: string): string | undefined;
  annotation(key: string): string | undefined;
  /** When deletion was requested (RFC 3339), while finalizers keep the object. */
  readonly deletionTimestamp: string | undefined;
  /** The owner that controls the object. */
  readonly controller: { apiVersion: string; kind: string; name: string; uid: string } | undefined;
  /** Returns the value at a JSON pointer (RFC 6901), such as `/spec/replicas`; undefined when nothing is there. */
  field<V = any>(pointer: string): V | undefined;
  /** Returns the value at a JSON pointer as text: a string as it is, any other value as JSON; undefined when nothing is there. */
  text(pointer: string): string | undefined;
  /** Returns the values at several JSON pointers (at most 64) in one call. */
  fields<V extends any[] = any[]>(...pointers: string[]): { [Position in keyof V]: V[Position] | undefined };
  /** Returns the texts at several JSON pointers (at most 64) in one call. */
  texts<P extends string[]>(...pointers: P): { [Position in keyof P]: string | undefined };
  /** Returns a parsed copy of the whole object. To read a few values, prefer `field`. */
  json(): T;
  /** Returns the whole object as the host's JSON text. */
  jsonText(): string;
  /** Keeps the handle open after the call, as long as you hold this object. */
  keep(): this;
  readonly isKept: boolean;
  /** Closes the handle before the call ends. */
  close(): void;
  [Symbol.dispose](): void;
  /** Returns a text such as `apps/v1 Deployment default/web`. */
  toString(): string;
}
