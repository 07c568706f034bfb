import type { AnyObject, KeyLike, KubeObject, Manifest, ObjectType, OwnerReference } from "./object.js";
import type { Page, Query } from "./index.js";

export interface Subresource {
  /** `status`, `scale`, … */
  subresource?: string;
}

export interface ApplyOptions extends Subresource {
  /** The plugin's own name, unless given; else that name, a slash and more. Any other is invalid. */
  fieldManager?: string;
  /** Takes fields over from other managers in place of a conflict. */
  force?: boolean;
}

export interface PatchOptions extends ApplyOptions {
  /** A merge patch, unless given. */
  type?: "json" | "merge" | "strategic" | "apply";
}

export interface DeleteOptions {
  propagation?: "background" | "foreground" | "orphan";
  /** Delete only the object with this UID, else `Conflict`. */
  uid?: string;
  /** Delete only this state, else `Conflict`. */
  resourceVersion?: string;
}

/**
 * Requests to the API server. Each is one round trip, must be covered by the descriptor's `writes` and the operator's grant, and throws an
 * `ApiError` when it fails.
 */
export const client: {
  /** The object as the server has it now. The cache is free by comparison. */
  get<T = AnyObject>(type: ObjectType, key: KeyLike, options?: Subresource): KubeObject<T>;
  /** All objects as the server has them now; the next page is asked for when the loop gets there. */
  list<T = AnyObject>(type: ObjectType, query?: Query & { fieldSelector?: string }): Generator<KubeObject<T>, void, undefined>;
  /** One page. An expired cursor is an `OtherStatus` with the code 410: begin again. */
  page<T = AnyObject>(type: ObjectType, query?: Query & { fieldSelector?: string }): Page<T>;
  /** With a subresource, posts to it (`eviction`). */
  create<T extends Manifest>(manifest: T, options?: Subresource): KubeObject<T>;
  /** Replaces an object by a changed copy of what was read. Its `resourceVersion` guards against changes in between. */
  update<T extends Manifest>(manifest: T, options?: Subresource): KubeObject<T>;
  /** As `update`, of the status alone. */
  updateStatus<T extends Manifest>(manifest: T): KubeObject<T>;
  patch<T = AnyObject>(type: ObjectType, key: KeyLike, body: object, options?: PatchOptions): KubeObject<T>;
  /** Server-side apply: creates the object where it is absent. Fields that are left out are not this plugin's. */
  apply<T extends Manifest>(manifest: T, options?: ApplyOptions): KubeObject<T>;
  /** Asks for an object's deletion; finalizers may hold it afterwards. */
  delete(type: ObjectType, key: KeyLike, options?: DeleteOptions): void;
  /**
   * Makes an object as `mutate` wants it: `present` is what the cache has; where it has nothing, `absent()` is the start. Nothing is sent when
   * `mutate` changes nothing.
   */
  createOrUpdate<T extends Manifest>(
    present: T | KubeObject<T> | undefined,
    absent: () => T,
    mutate?: (object: T) => void,
  ): { object: T; change: "created" | "updated" | "unchanged" };
  /** Repeats `attempt` while it throws a `Conflict`, at most five times in all. Each attempt must read the object anew. */
  retryOnConflict<R>(attempt: () => R): R;
};

/** Owner references. All of it works on parsed objects. */
export const owner: {
  /** A controlling reference, for `metadata.ownerReferences` of what the owner creates. */
  controllerOwnerRef(owner: Manifest): OwnerReference;
  controllerOf(object: Manifest): OwnerReference | undefined;
  /** By UID: an owner that was deleted and made again owns nothing yet. */
  isControlledBy(object: Manifest, owner: Manifest): boolean;
  /** Throws `AlreadyControlled` where another object controls it. */
  setController(object: Manifest, owner: Manifest): void;
  readonly AlreadyControlled: new (object: Manifest, other: OwnerReference) => Error;
};

/** Finalizers: cleaning up outside the cluster before an object goes. */
export const finalizer: {
  /**
   * Runs `apply` while the object lives, `cleanup` when it is being deleted. The finalizer is there before the first `apply`, and goes after a
   * `cleanup` that does not throw. The plugin must be allowed to patch the object.
   */
  run<R>(object: Manifest, name: string, phases: { apply(): R; cleanup(): R }): R | undefined;
};

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message: string;
  lastTransitionTime: string;
  observedGeneration?: number;
}

/** Conditions in a status. */
export const conditions: {
  /**
   * Adds a condition or brings it up to date, and says whether that changed anything. `lastTransitionTime` becomes `now` only when the status
   * flips.
   */
  set(
    conditions: Condition[],
    condition: { type: string; status: boolean | Condition["status"]; reason: string; message?: string; observedGeneration?: number },
    now?: Date,
  ): boolean;
  find(conditions: Condition[], type: string): Condition | undefined;
  isTrue(conditions: Condition[], type: string): boolean;
  /** Says whether it was there. */
  remove(conditions: Condition[], type: string): boolean;
};

type Write = (message: unknown, fields?: { [key: string]: unknown }) => void;

/** The plugin's log. The host adds plugin, watch, key and attempt to every line. `console` goes there too. */
export const log: { debug: Write; info: Write; warn: Write; error: Write };

type Labels = { [key: string]: string | number | boolean };

/** The plugin's own metrics. Labels must have few values: a label per object makes a series per object. */
export const metrics: {
  counter(name: string, labels?: Labels, add?: number): void;
  gauge(name: string, labels: Labels, value: number): void;
  /** Durations in seconds. */
  histogram(name: string, labels: Labels, value: number): void;
};
