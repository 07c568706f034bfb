// The SDK's types. Types of Kubernetes objects are in the package `kubernetes-types`:
// `import type { ConfigMap } from "kubernetes-types/core/v1"`, then `ctx.cache<ConfigMap>("maps")`.

import type { AnyObject, KeyLike, KubeObject, ObjectKey, Regarding } from "./object.js";
import type { Descriptor } from "./descriptor.js";

export * from "./descriptor.js";
export * from "./errors.js";
export * from "./object.js";
export * from "./tools.js";

/** The sidecar's `config`. */
export type Config = { readonly [name: string]: any };

/** Returns the sidecar's `config`, which `describe` received too. It is constant for the lifetime of an instance. */
export function config(): Config;

/** The definition of a plugin. Its members determine what the component exports. */
export interface PluginDefinition {
  /**
   * The descriptor, or a function from the sidecar's config to it. The function may only log. An error that it throws refuses the load, and its
   * text is shown to the operator.
   */
  describe: Descriptor | ((config: Config) => Descriptor);
  /**
   * Brings the object of `request` to its desired state. The call is level-triggered: decide from what the cache holds now. The object may have
   * been deleted. An object is never reconciled by two calls at the same time.
   *
   * After an error the host retries with backoff; after a `Terminal` it waits for a change of the object.
   */
  reconcile?(ctx: Context, request: Request): Outcome | void;
  /**
   * Handles a batch of notifications of the watches with `notify`, in order. All calls go to one instance, so the plugin may keep state in the
   * module's variables. A new instance first receives an `added` with `initial` for each existing object.
   *
   * After a `Retry` or an `ApiError` the host delivers the batch again; after a `Terminal` it sets the batch aside. Any other error ends the
   * instance.
   */
  observe?(ctx: Context, notifications: Notification[]): void;
  /** The functions that return the values under which an object is listed in each `computed` index of the descriptor. They may only log. */
  indexes?: { [index: string]: (object: KubeObject<any>) => Iterable<string> | string | undefined };
}

/** A plugin: the default export of the module. */
export interface Plugin extends Readonly<PluginDefinition> {}

/** Defines a plugin: `export default definePlugin({ … })`. */
export function definePlugin(plugin: PluginDefinition): Plugin;

/** What a successful reconcile asks for next. A reconcile that returns nothing waits for a change. */
export interface Outcome {
  /** Reconcile the object again after this many milliseconds (at most about 24 days), or earlier if a change queues it. */
  requeueAfter: number;
}

export type Reason = "created" | "updated" | "deleted" | "resync" | "requeue" | "retry" | "startup" | "other";

/** One item of work: an object of a target watch. */
export interface Request {
  readonly watch: string;
  readonly key: ObjectKey;
  /** All reasons merged into this item. They are informational: a correct reconcile produces the same result without them. */
  readonly reasons: Reason[];
  /** The number of consecutive failures of this object: 0 on the first attempt. */
  readonly attempt: number;
  readonly extra: { readonly [key: string]: string };
}

/** Gives access to the host during one call. */
export interface Context {
  /** Reads the objects of a declared watch from the host's memory. */
  cache<T = AnyObject>(watch: string): Cache<T>;
  /** Queues work for objects of one target watch. */
  queue(watch: string): Queue;
  readonly events: Events;
}

/** Selects objects of a watch; an empty query selects all of them. */
export interface Query {
  namespace?: string;
  /** A label selector in kubectl's syntax: `app=web,tier in (a, b)`. */
  labelSelector?: string;
  /** The maximum number of objects per page: never more than 500, which is also the default. */
  limit?: number;
  /** Where to continue: the `next` of the previous page. */
  cursor?: string;
}

/** One page of a list. */
export interface Page<T> {
  /** The objects, ordered by namespace, then name. */
  items: KubeObject<T>[];
  /** The cursor of the next page; undefined after the last page. */
  next?: string;
}

/** The values that `listFields` read from one object, one per pointer; undefined where nothing is. */
export interface Row {
  key: ObjectKey;
  values: any[];
}

/** Reads the objects of one watch from the host's memory. No method sends a request to the API server. The plugin's own writes are visible
 * immediately. */
export interface Cache<T = AnyObject> {
  /** Returns the object with this key, or undefined when the watch does not contain it. */
  get(key: KeyLike): KubeObject<T> | undefined;
  /** Yields all objects that the query selects, ordered by namespace, then name. Reads the next page when the loop reaches it. */
  list(query?: Query): Generator<KubeObject<T>, void, undefined>;
  page(query?: Query): Page<T>;
  /** Returns the values at JSON pointers (RFC 6901, at most 64) of many objects in one call, without opening handles. */
  listFields(query: Query, ...pointers: string[]): Row[];
  /** Returns all objects with this value in a declared index. */
  byIndex(index: string, value: string): KubeObject<T>[];
  indexKeys(index: string, value: string): ObjectKey[];
  /** Returns all values of an index that at least one object has, sorted. */
  indexValues(index: string): string[];
  /** Returns whether the watch's initial list is complete in the cache. Always true in `reconcile`; an observer may see it become true. */
  hasSynced(): boolean;
}

/** Queues work for objects of one target watch (one with the trigger `self`). The objects need not exist. */
export interface Queue {
  /** Queues the object now. The queue holds a key at most once; adding the key that is being reconciled runs it once more afterwards. */
  add(key: KeyLike): void;
  /** Queues the object after a delay in milliseconds, at most about 24 days. Of several delays the earliest applies. */
  addAfter(key: KeyLike, milliseconds: number): void;
}

/** Records Kubernetes Events; never waits or fails. `reason` and `action` are UpperCamelCase identifiers; `note` is a sentence for people. */
export interface Events {
  normal(regarding: Regarding, reason: string, action: string, note: string): void;
  warning(regarding: Regarding, reason: string, action: string, note: string): void;
}

export type Change = "added" | "updated" | "deleted" | "resync";

/** One change of one object. */
export interface Notification {
  readonly watch: string;
  readonly change: Change;
  readonly key: ObjectKey;
  /** Whether this `added` replays an object that existed before this instance started to observe. */
  readonly initial: boolean;
  /** Whether the watch missed this `deleted`, so that the last known state may be older than the object's final state. */
  readonly finalStateUnknown: boolean;
  /** Returns the object before the change: undefined for an addition, the last known state for a deletion. */
  before<T = AnyObject>(): KubeObject<T> | undefined;
  /** Returns the object after the change; undefined for a deletion. */
  after<T = AnyObject>(): KubeObject<T> | undefined;
  /** Returns the value at a JSON pointer (RFC 6901) of the object after the change. The cheapest way to read one value: opens no handle. */
  field<V = any>(pointer: string): V | undefined;
}
