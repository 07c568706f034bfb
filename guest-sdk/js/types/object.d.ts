/** The metadata that the SDK itself reads. */
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

/** Any object, as JSON: what a manifest has. Types of `kubernetes-types` are such. */
export interface Manifest {
  apiVersion?: string;
  kind?: string;
  metadata?: object;
}

/** An object of which no type is given. */
export type AnyObject = any;

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

/** The name of an object inside one watch. */
export class ObjectKey {
  constructor(namespace: string, name: string);
  /** "" for a cluster-scoped object. */
  readonly namespace: string;
  readonly name: string;
  /** The key of anything that has a name: a key, an object as JSON, a handle. */
  static of(value: KeyLike): ObjectKey;
  /** Another name in the same namespace. */
  sibling(name: string): ObjectKey;
  equals(other: { namespace?: string; name: string }): boolean;
  /** `namespace/name`, or `name` for cluster scope. */
  toString(): string;
}

/** Whatever has a name: a key, an object as JSON, a handle. */
export type KeyLike = ObjectKey | { namespace?: string; name: string } | { metadata?: object } | KubeObject<any>;

/** A kind in one API version, as in a manifest; an object of that kind will do. */
export interface ObjectType {
  apiVersion?: string;
  kind?: string;
}

/** What an Event can be about: a handle, or an object as JSON that was read from the server. */
export type Regarding = KubeObject<any> | Manifest;

/**
 * One state of one object, held by the host: immutable, so what you read never changes while you hold it. Reading a field copies that field
 * and nothing else. The handle closes when the call ends, unless it is kept.
 */
export class KubeObject<T = AnyObject> {
  private constructor();
  readonly key: ObjectKey;
  /** As in a manifest: `apps/v1`. */
  readonly apiVersion: string;
  /** As in a manifest: `Deployment`. */
  readonly kind: string;
  readonly uid: string;
  /** Opaque. */
  readonly resourceVersion: string;
  /** 0 for an object that has none. */
  readonly generation: number;
  readonly labels: { [key: string]: string };
  label(key: string): string | undefined;
  annotation(key: string): string | undefined;
  /** Deletion was asked for at this time (RFC 3339), and finalizers hold the object. */
  readonly deletionTimestamp: string | undefined;
  /** The owner that controls it. */
  readonly controller: { apiVersion: string; kind: string; name: string; uid: string } | undefined;
  /** The value at an RFC 6901 pointer (`/spec/replicas`); undefined when nothing is there. */
  field<V = any>(pointer: string): V | undefined;
  /** The text at a pointer: a string as it is, any other value as JSON; undefined when nothing is there. */
  text(pointer: string): string | undefined;
  /** `field` at several pointers (at most 64), in one call in place of many. */
  fields<V extends any[] = any[]>(...pointers: string[]): { [Position in keyof V]: V[Position] | undefined };
  /** `text` at several pointers (at most 64), in one call in place of many. */
  texts<P extends string[]>(...pointers: P): { [Position in keyof P]: string | undefined };
  /** The whole object, parsed: a copy of your own. */
  json(): T;
  /** The whole object as the host's JSON text. */
  jsonText(): string;
  /** Lets the handle live on after the call, as long as you hold this object. */
  keep(): this;
  readonly isKept: boolean;
  /** Closes the handle before the call ends. */
  close(): void;
  [Symbol.dispose](): void;
  /** `apps/v1 Deployment default/web` */
  toString(): string;
}
