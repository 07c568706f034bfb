import type { Config, KeyLike, Manifest, ObjectKey, ObjectType, Plugin, Reason } from "./index.js";
import type { Descriptor } from "./descriptor.js";

export interface FakeHost {
  /** The plugin's descriptor. */
  readonly descriptor: Descriptor & { apiVersion: string; kind: string };
  readonly logs: { level: string; message: string; fields: { [key: string]: string } }[];
  readonly events: { type: string; reason: string; action: string; note: string; regarding: any }[];
  /** `after` is undefined for `add`. */
  readonly queued: { watch: string; key: ObjectKey; after: number | undefined }[];
  readonly metrics: { type: string; name: string; labels: { [key: string]: string }; value: number }[];
  /** The requests, including denied ones. */
  readonly requests: { verb: string; type: ObjectType; key: ObjectKey | undefined }[];
  /** The writes that succeeded: "create v1 ConfigMap default/web", "apply apps/v1 Deployment default/web status". */
  readonly writes: string[];
  /** The number of handles that the plugin has open. */
  readonly openHandles: number;
  /** Returns the object in the cluster, or undefined. */
  get(type: ObjectType, key: KeyLike): any;
  /** Creates or replaces an object in the cluster, as another client would, and returns it as stored. A resource version is ignored. */
  put<T extends Manifest>(object: T): T;
  /** Deletes an object as `kubectl delete` does: an object with finalizers only gets a deletion timestamp. */
  remove(type: ObjectType, key: KeyLike): void;
  /**
   * Makes the next `times` requests fail that have this verb and this kind, by default any:
   * `fail("conflict", { message: "changed", resourceVersion: "" }, { verb: "update", kind: "Foo" })`. A failed request changes nothing. A
   * server-side apply has the verb `patch`.
   */
  fail(
    tag: string,
    val: unknown,
    requests?: { verb?: "get" | "list" | "create" | "update" | "patch" | "delete"; kind?: string; times?: number },
  ): void;
  /** Makes the next request fail: `failNext("not-found", "gone")`. */
  failNext(tag: string, val: unknown): void;
  reconcile(
    watch: string,
    key: KeyLike,
    options?: { reasons?: Reason[]; attempt?: number },
  ): { outcome: "done" | "requeue-after" | "retry" | "terminal"; after?: number; message?: string };
  observe(...notifications: { watch: string; before?: Manifest; after?: Manifest; initial?: boolean; finalStateUnknown?: boolean }[]): void;
  /** Returns the values of a computed index for an object. */
  indexValues(index: string, object: Manifest): string[];
}

/** A programming error at which the real host ends the instance, such as the name of an unknown watch. */
export class Trap extends Error {}

/**
 * Installs a fake host with one plugin and an in-memory cluster, until the next one is created. Requests have the results that a Kubernetes API
 * server would give, without schemas, defaults, admission and garbage collection. An undeclared write is denied; an undeclared watch or index
 * throws a `Trap` out of the call.
 */
export function fakeHost(plugin: Plugin, options?: { objects?: Manifest[]; config?: Config }): FakeHost;
