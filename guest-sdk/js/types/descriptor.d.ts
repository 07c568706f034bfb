/** A plugin's descriptor: what it watches, indexes and writes. The host publishes its schema (`docs/plugin.schema.json`). */
export interface Descriptor {
  /** Should be the name of the .wasm file. */
  name: string;
  version: string;
  /** A one-sentence summary, which `pilothouse status` shows. */
  summary?: string;
  watches?: Watch[];
  /** The requests that the plugin sends. The host denies requests that are not listed, or not granted by the operator. */
  writes?: Rule[];
  /** The hosts to which the plugin sends HTTP requests, such as `api.example.com`. The host denies requests that the operator's grant does not allow. The SDK has no HTTP client yet. */
  http?: string[];
  /** CustomResourceDefinitions, which the host applies before it starts the watches, if the operator grants that. */
  crds?: object[];
  /** Runs all calls on a single instance with one worker, which is kept when idle. */
  stateful?: boolean;
  /** Requested limits; the operator's sidecar takes precedence. */
  limits?: Limits;
}

/** A kind of object to watch, and the work that its changes queue. */
export interface Watch {
  name: string;
  /** The exact API version: `apps/v1`. */
  apiVersion: string;
  kind: string;
  /** The plural name in URLs, which is needed where several resources have the kind. */
  resource?: string;
  /** Restricts the watch to these namespaces; empty for all. */
  namespaces?: string[];
  labelSelector?: string;
  fieldSelector?: string;
  /** How much of each object the host caches; `metadata` means only apiVersion, kind and metadata. `full` by default. */
  projection?: "full" | "metadata";
  /** Which object a change queues. Without a trigger the objects are only cached. */
  trigger?: Trigger;
  /** A CEL expression over `object`, `old` and `event`. Changes for which it is false are ignored. */
  predicate?: string;
  /** Delivers every change to `observe`. */
  notify?: boolean;
  /** Resync period in milliseconds: each object is queued again at this interval. No resync by default. */
  resync?: number;
  indexes?: Index[];
}

/** Which object a change queues. Work always is for an object of a target watch, that is, a watch whose trigger is `self`. */
export type Trigger =
  | "self"
  | { owner: { watch: string } }
  | { ownerAny: { watch: string } }
  | { label: { key: string; watch: string } }
  | { field: { path: string; namespacePath?: string; watch: string } }
  | { index: { watch: string; index: string } }
  | { namespace: { watch: string } };

/** An index over the objects of a watch: by a label, an annotation, a JSONPath, the owners' UIDs, or values that the plugin's `indexes` compute. */
export type Index = { name: string } & (
  | { label: string }
  | { annotation: string }
  | { field: string }
  | { owner: true }
  | { computed: true }
);

/** A rule with the fields of an RBAC PolicyRule, plus namespaces; an empty list of namespaces means all namespaces. */
export interface Rule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
  namespaces?: string[];
}

export interface Limits {
  /** Memory of one instance: `32Mi`. */
  memory?: string;
  /** The time that one reconcile may take: `30s`, `500ms`. */
  reconcileTimeout?: string;
  observeTimeout?: string;
  /** The time that computing the index values of one object may take. */
  indexTimeout?: string;
  /** The number of object handles that one instance may hold. */
  handles?: number;
  /** The number of elements in all wasm tables of one instance. */
  tableElements?: number;
  /** The size of the arguments, and of the results, of one call: `16Mi`. */
  messageSize?: string;
}
