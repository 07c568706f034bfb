import type { AnyObject, KeyLike, KubeObject, Manifest, ObjectType, OwnerReference } from "./object.js";
import type { Page, Query } from "./index.js";

export interface Subresource {
  /** A subresource such as `status` or `scale`. */
  subresource?: string;
}

export interface ApplyOptions extends Subresource {
  /** The field manager: the plugin's name by default. Another value must be that name, a slash and a suffix. */
  fieldManager?: string;
  /** Takes over fields that other managers own, instead of failing with a conflict. */
  force?: boolean;
}

export interface PatchOptions extends ApplyOptions {
  /** The type of the patch; `merge` by default. */
  type?: "json" | "merge" | "strategic" | "apply";
}

export interface DeleteOptions {
  propagation?: "background" | "foreground" | "orphan";
  /** Delete only the object with this UID, otherwise throw `Conflict`. */
  uid?: string;
  /** Delete only this version of the object, otherwise throw `Conflict`. */
  resourceVersion?: string;
}

/**
 * Sends requests to the API server. Each request must be covered by the descriptor's `writes` and by the operator's grant. A failed request
 * throws an `ApiError`. No function retries: do not catch the error, and the host retries with backoff.
 */
export const client: {
  /** Returns the current object from the server. Reads of the cache send no request. */
  get<T = AnyObject>(type: ObjectType, key: KeyLike, options?: Subresource): KubeObject<T>;
  /** Yields all current objects from the server. Requests the next page when the loop reaches it. */
  list<T = AnyObject>(type: ObjectType, query?: Query & { fieldSelector?: string }): Generator<KubeObject<T>, void, undefined>;
  /** Returns one page. An expired cursor throws an `OtherStatus` with code 410: start again without a cursor. */
  page<T = AnyObject>(type: ObjectType, query?: Query & { fieldSelector?: string }): Page<T>;
  /** Creates an object and returns it as stored. With a subresource, such as `eviction`, posts the manifest to it. */
  create<T extends Manifest>(manifest: T, options?: Subresource): KubeObject<T>;
  /** Replaces an object with a changed copy of what was read, and returns it as stored. Its `resourceVersion` protects concurrent changes. */
  update<T extends Manifest>(manifest: T, options?: Subresource): KubeObject<T>;
  /** Like `update`, but replaces only the status; the server ignores the rest of the manifest. */
  updateStatus<T extends Manifest>(manifest: T): KubeObject<T>;
  patch<T = AnyObject>(type: ObjectType, key: KeyLike, body: object, options?: PatchOptions): KubeObject<T>;
  /** Applies an object server-side and returns it as stored: the plugin owns the fields that are set, and gives up those that it leaves out.
   * Creates the object when it does not exist. */
  apply<T extends Manifest>(manifest: T, options?: ApplyOptions): KubeObject<T>;
  /** Requests an object's deletion; finalizers may keep it in existence afterwards. */
  delete(type: ObjectType, key: KeyLike, options?: DeleteOptions): void;
  /**
   * Creates or updates an object. `present` is the object that the cache holds; when it is undefined, the object is created from `absent()`.
   * `mutate` then brings the object to its desired state. Nothing is sent when `mutate` changes nothing in a present object.
   */
  createOrUpdate<T extends Manifest>(
    present: T | KubeObject<T> | undefined,
    absent: () => T,
    mutate?: (object: T) => void,
  ): { object: T; change: "created" | "updated" | "unchanged" };
  /** Repeats `attempt` while it throws a `Conflict`, up to five attempts in total. Each attempt must read the object again with `get`. */
  retryOnConflict<R>(attempt: () => R): R;
};

/** Owner references. The functions take parsed objects. */
export const owner: {
  /** Returns a controlling reference, for `metadata.ownerReferences` of an object that the owner creates. */
  controllerOwnerRef(owner: Manifest): OwnerReference;
  controllerOf(object: Manifest): OwnerReference | undefined;
  /** Returns whether `owner` controls `object`, comparing UIDs: a recreated owner does not own the objects of its predecessor. */
  isControlledBy(object: Manifest, owner: Manifest): boolean;
  /** Makes `owner` the controller of `object`. Throws `AlreadyControlled` when another object already controls it. */
  setController(object: Manifest, owner: Manifest): void;
  readonly AlreadyControlled: new (object: Manifest, other: OwnerReference) => Error;
};

/** Finalizers: cleanup that must happen before an object is deleted. */
export const finalizer: {
  /**
   * Calls `apply` while the object exists and `cleanup` once it is being deleted. The finalizer is added before the first `apply` and removed
   * after a successful `cleanup`. The plugin must be allowed to patch the object.
   *
   * Both functions receive the object, with the finalizer. Use this one from then on: adding the finalizer changes the resource version, so an
   * update of the argument itself would conflict.
   */
  run<T extends Manifest, R>(object: T, name: string, phases: { apply(object: T): R; cleanup(object: T): R }): R | undefined;
};

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message: string;
  lastTransitionTime: string;
  observedGeneration?: number;
}

/** Status conditions. */
export const conditions: {
  /**
   * Adds or updates a condition, and returns whether the list changed. `lastTransitionTime` becomes `now` only when the condition's status
   * changes.
   */
  set(
    conditions: Condition[],
    condition: { type: string; status: boolean | Condition["status"]; reason: string; message?: string; observedGeneration?: number },
    now?: Date,
  ): boolean;
  find(conditions: Condition[], type: string): Condition | undefined;
  isTrue(conditions: Condition[], type: string): boolean;
  /** Removes a condition, and returns whether it existed. */
  remove(conditions: Condition[], type: string): boolean;
};

type Write = (message: unknown, fields?: { [key: string]: unknown }) => void;

/** The plugin's log. The host adds the plugin to every line, and in a reconcile the watch and the key. `console` goes there too. */
export const log: { debug: Write; info: Write; warn: Write; error: Write };

type Labels = { [key: string]: string | number | boolean };

/** The plugin's own metrics. Use labels with few values: a label per object makes a series per object. */
export const metrics: {
  counter(name: string, labels?: Labels, add?: number): void;
  gauge(name: string, labels: Labels, value: number): void;
  /** Records one observation in a histogram; use seconds for durations. */
  histogram(name: string, labels: Labels, value: number): void;
};
