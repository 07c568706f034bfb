// The SDK's types. Kubernetes' own come from the package `kubernetes-types`, where you want them:
// `import type { ConfigMap } from "kubernetes-types/core/v1"`, then `ctx.cache<ConfigMap>("maps")`.

import type { AnyObject, KeyLike, KubeObject, ObjectKey, Regarding } from "./object.js";
import type { Descriptor } from "./descriptor.js";

export * from "./descriptor.js";
export * from "./errors.js";
export * from "./object.js";
export * from "./tools.js";

/** The sidecar's `config`. */
export type Config = { readonly [name: string]: any };

/** The sidecar's `config`, as `describe` was given it. It stays the same while an instance lives. */
export function config(): Config;

/** What an author writes. What it has decides what the component exports. */
export interface PluginDefinition {
  /**
   * What the plugin watches, indexes and writes; or a function to it from the sidecar's config. It may call nothing but the log. What it
   * throws refuses the load, and its text reaches the operator.
   */
  describe: Descriptor | ((config: Config) => Descriptor);
  /**
   * Brings the object that `request` names to its desired state. Level-triggered: decide from what the cache holds. The object may be gone.
   * Never called for one object twice at a time.
   *
   * What it throws is tried again with backoff; a `Terminal` waits for a change of the object.
   */
  reconcile?(ctx: Context, request: Request): Outcome | void;
  /**
   * Takes a batch of notifications about the watches with `notify`, in their order. All calls go to one instance, so the module's variables
   * may hold what they teach. A new instance is first told an `added` with `initial` for each object.
   *
   * A `Retry`, a `Terminal` or an `ApiError` fails the batch, which comes again or is set aside; any other error ends the instance.
   */
  observe?(ctx: Context, notifications: Notification[]): void;
  /** The values under which an object is found in each index that the descriptor calls `computed`. May call nothing but the log. */
  indexes?: { [index: string]: (object: KubeObject<any>) => Iterable<string> | string | undefined };
}

/** A plugin: the default export of the module. */
export interface Plugin extends Readonly<PluginDefinition> {}

/** Makes a plugin of its parts: `export default definePlugin({ … })`. */
export function definePlugin(plugin: PluginDefinition): Plugin;

/** What a reconcile that succeeded wants next; nothing, when it returns nothing. */
export interface Outcome {
  /** The same object again after so many milliseconds, or earlier if something changes. At most about 24 days. */
  requeueAfter: number;
}

export type Reason = "created" | "updated" | "deleted" | "resync" | "requeue" | "retry" | "startup" | "other";

/** Work: one object of one target watch. */
export interface Request {
  readonly watch: string;
  readonly key: ObjectKey;
  /** They inform; a correct reconcile gives the same result without them. */
  readonly reasons: Reason[];
  /** How many times in a row this object has failed. */
  readonly attempt: number;
  readonly extra: { readonly [key: string]: string };
}

/** The host, as seen from one call. */
export interface Context {
  /** The objects of a declared watch, as the host has them in memory. */
  cache<T = AnyObject>(watch: string): Cache<T>;
  /** More work, for objects of one target watch. */
  queue(watch: string): Queue;
  readonly events: Events;
}

/** Which objects of a watch: all, where nothing is said. */
export interface Query {
  namespace?: string;
  /** In kubectl's syntax: `app=web,tier in (a, b)`. */
  labelSelector?: string;
  /** At most so many per page; the host never gives more than 500. */
  limit?: number;
  /** Those after a page: its `next`. */
  cursor?: string;
}

/** A part of a list. */
export interface Page<T> {
  /** In the order of namespace and name. */
  items: KubeObject<T>[];
  /** Undefined after the last page. */
  next?: string;
}

/** Values of one object, one per pointer asked for; undefined where nothing is. */
export interface Row {
  key: ObjectKey;
  values: any[];
}

/** The objects of one watch. No read here reaches the API server. Reads include this plugin's own writes at once. */
export interface Cache<T = AnyObject> {
  /** The object with this key; undefined when the watch does not have it. */
  get(key: KeyLike): KubeObject<T> | undefined;
  /** All objects that the query names; the next page is read when the loop gets there. */
  list(query?: Query): Generator<KubeObject<T>, void, undefined>;
  page(query?: Query): Page<T>;
  /** Values at RFC 6901 pointers of many objects in one call, without a handle. */
  listFields(query: Query, ...pointers: string[]): Row[];
  /** All objects with this value in a declared index. */
  byIndex(index: string, value: string): KubeObject<T>[];
  indexKeys(index: string, value: string): ObjectKey[];
  /** The values that at least one object has. */
  indexValues(index: string): string[];
  /** Whether the watch's first list has been taken in whole. Always true in `reconcile`. */
  hasSynced(): boolean;
}

/** More work, for objects of one target watch. The objects need not exist. */
export interface Queue {
  /** Queues the object now, once however often it is added. */
  add(key: KeyLike): void;
  /** Queues the object after a time; of two delays the earlier wins. */
  addAfter(key: KeyLike, milliseconds: number): void;
}

/** Kubernetes Events. `reason` and `action` are UpperCamelCase words for machines, `note` a sentence for people. Never waits, never fails. */
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
  /** An `added` that replays what was there before this instance saw it. */
  readonly initial: boolean;
  /** A `deleted` that the watch missed: the last state known may be older than the last one there was. */
  readonly finalStateUnknown: boolean;
  /** The state before; undefined for an addition. Of a deletion, the last state known. */
  before<T = AnyObject>(): KubeObject<T> | undefined;
  /** The state after; undefined for a deletion. */
  after<T = AnyObject>(): KubeObject<T> | undefined;
  /** The value at a pointer of the state after, without taking the object: the cheapest way to one value. */
  field<V = any>(pointer: string): V | undefined;
}
