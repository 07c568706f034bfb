import type { Config, KeyLike, Manifest, ObjectKey, ObjectType, Plugin, Reason } from "./index.js";
import type { Descriptor } from "./descriptor.js";

export interface FakeHost {
  /** As the plugin described itself. */
  readonly descriptor: Descriptor & { apiVersion: string; kind: string };
  readonly logs: { level: string; message: string; fields: { [key: string]: string } }[];
  readonly events: { type: string; reason: string; action: string; note: string; regarding: any }[];
  /** `after` is undefined for `add`. */
  readonly queued: { watch: string; key: ObjectKey; after: number | undefined }[];
  readonly metrics: { type: string; name: string; labels: { [key: string]: string }; value: number }[];
  /** The denied ones too. */
  readonly requests: { verb: string; type: ObjectType; key: ObjectKey | undefined }[];
  /** Handles that the plugin has open. */
  readonly openHandles: number;
  /** The object as the cluster has it; undefined when it does not. */
  get(type: ObjectType, key: KeyLike): any;
  /** Puts an object there, or replaces it, as somebody else would. */
  put<T extends Manifest>(object: T): T;
  /** The next request fails: `failNext("not-found", "gone")`. */
  failNext(tag: string, val: unknown): void;
  reconcile(
    watch: string,
    key: KeyLike,
    options?: { reasons?: Reason[]; attempt?: number },
  ): { outcome: "done" | "requeue-after" | "retry" | "terminal"; after?: number; message?: string };
  observe(...told: { watch: string; before?: Manifest; after?: Manifest; initial?: boolean; finalStateUnknown?: boolean }[]): void;
  /** The values of a computed index for an object. */
  indexValues(index: string, object: Manifest): string[];
}

/** A host with one plugin, in place until the next one is made: a small cluster in memory, which keeps to the descriptor. */
export function fakeHost(plugin: Plugin, options?: { objects?: Manifest[]; config?: Config }): FakeHost;
