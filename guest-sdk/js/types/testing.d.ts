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
  /** The number of handles that the plugin has open. */
  readonly openHandles: number;
  /** Returns the object in the cluster, or undefined. */
  get(type: ObjectType, key: KeyLike): any;
  /** Creates or replaces an object in the cluster, as another client would. */
  put<T extends Manifest>(object: T): T;
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

/** Installs a fake host with one plugin and an in-memory cluster, until the next one is created. It enforces the descriptor. */
export function fakeHost(plugin: Plugin, options?: { objects?: Manifest[]; config?: Config }): FakeHost;
