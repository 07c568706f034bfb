/** What a plugin watches, indexes and writes. Its schema is published with the host (`docs/plugin.schema.json`). */
export interface Descriptor {
  /** Should be the name of the .wasm file. */
  name: string;
  version: string;
  /** One sentence for `pilothouse status`. */
  summary?: string;
  watches?: Watch[];
  /** What the plugin writes or reads live. A call outside of them is denied. */
  writes?: Rule[];
  /** CustomResourceDefinitions that the plugin brings; applied where granted. */
  crds?: object[];
  /** All calls go to one instance that is kept, with one worker. */
  stateful?: boolean;
  /** Wishes; the operator decides. */
  limits?: Limits;
}

/** One kind of object that a plugin reads. */
export interface Watch {
  name: string;
  /** The exact API version: `apps/v1`. */
  apiVersion: string;
  kind: string;
  /** The plural name in URLs, where several resources have the kind. */
  resource?: string;
  /** All, when empty. */
  namespaces?: string[];
  labelSelector?: string;
  fieldSelector?: string;
  /** `metadata` holds only apiVersion, kind and metadata. */
  projection?: "full" | "metadata";
  /** Which object a change queues; absent, the watch only fills the cache. */
  trigger?: Trigger;
  /** CEL over `object`, `old` and `event`; a change for which it is false starts no work. */
  predicate?: string;
  /** Whether `observe` is told of this watch. */
  notify?: boolean;
  /** Every so many milliseconds each object is queued again. */
  resync?: number;
  indexes?: Index[];
}

/** Work always names an object of a target watch: one whose own trigger is `self`. */
export type Trigger =
  | "self"
  | { owner: { watch: string } }
  | { ownerAny: { watch: string } }
  | { label: { key: string; watch: string } }
  | { field: { path: string; namespacePath?: string; watch: string } }
  | { index: { watch: string; index: string } };

/** By the value of a label, of an annotation, of a JSONPath, by the owners' UIDs, or by the plugin's own `indexes`. */
export type Index = { name: string } & (
  | { label: string }
  | { annotation: string }
  | { field: string }
  | { owner: true }
  | { computed: true }
);

/** An RBAC PolicyRule, with namespaces; an empty list of namespaces means all. */
export interface Rule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
  namespaces?: string[];
}

export interface Limits {
  /** Of one instance: `32Mi`. */
  memory?: string;
  /** `30s`, `500ms` */
  reconcileTimeout?: string;
  observeTimeout?: string;
  /** For the index values of one object. */
  indexTimeout?: string;
  /** Object handles that may be open. */
  handles?: number;
  /** Elements of all tables of one instance. */
  tableElements?: number;
  /** Bytes that one call may carry either way: `16Mi`. */
  messageSize?: string;
}
