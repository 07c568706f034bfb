// A fake host for unit tests in Node. It calls the plugin as the real host does, with an in-memory cluster.

import { component } from "../component.js";
import { install } from "../host-in-node.js";
import { ObjectKey } from "../key.js";
import { Handles } from "./handle.js";
import { at, atPath, merge, refusal, Store } from "./store.js";

const PAGE = 500;

/**
 * Installs a fake host with one plugin, until the next one is created. `objects` are in its cluster; `config` is the sidecar's. As with a real
 * host, an undeclared watch ends the call, and an undeclared write is denied.
 */
export function fakeHost(plugin, options = {}) {
  return new FakeHost(plugin, options);
}

class FakeHost {
  /** The plugin's descriptor. */
  descriptor;
  /** The log lines: `{ level, message, fields }`. */
  logs = [];
  /** The recorded Events: `{ type, reason, action, note, regarding }`. */
  events = [];
  /** The keys that were added to the queue: `{ watch, key, after }`; `after` is undefined for `add`. */
  queued = [];
  /** The metrics calls: `{ type, name, labels, value }`. */
  metrics = [];
  /** The requests, including denied ones: `{ verb, type, key }`. */
  requests = [];
  #store = new Store();
  #handles = new Handles();
  #failures = [];
  #component;
  #config;
  #plugin;

  constructor(plugin, { objects = [], config = {} }) {
    this.#plugin = plugin;
    this.#config = JSON.stringify(config);
    this.#component = component(plugin);
    install(this.#imports());
    for (const object of objects) this.#store.put(object);
    this.descriptor = JSON.parse(this.#component.plugin.describe(this.#config));
  }

  /** Returns the object in the cluster, or undefined. */
  get(type, key) {
    const found = this.#store.find(type, key);
    return found === undefined ? undefined : structuredClone(found);
  }

  /** Creates or replaces an object in the cluster, as another client would. */
  put(object) {
    return structuredClone(this.#store.put(object));
  }

  /** The number of handles that the plugin has open. */
  get openHandles() {
    return this.#handles.open;
  }

  /** Makes the next request fail: `failNext("conflict", { message: "changed", resourceVersion: "" })`. */
  failNext(tag, val) {
    this.#failures.push(refusal(tag, val));
  }

  /**
   * Reconciles one object. Returns `{ outcome: "done" }`, `{ outcome: "requeue-after", after }`, or, for an error,
   * `{ outcome: "retry" | "terminal", message }`.
   */
  reconcile(watch, key, { reasons = ["updated"], attempt = 0 } = {}) {
    const { namespace, name } = ObjectKey.of(key);
    try {
      const outcome = this.#component.reconcile.reconcile({ watch, key: { namespace, name }, reasons, attempt, extra: [] });
      return outcome.val === undefined ? { outcome: outcome.tag } : { outcome: outcome.tag, after: outcome.val };
    } catch (failure) {
      if (failure?.tag === undefined) throw failure;
      return { outcome: failure.tag, message: failure.val };
    }
  }

  /** Delivers notifications to the observer. Each has `watch`, and the object `before`, `after`, or both. */
  observe(...changes) {
    const notifications = changes.map(({ watch, before, after, initial = false, finalStateUnknown = false }) => {
      const change = before === undefined ? "added" : after === undefined ? "deleted" : "updated";
      const { namespace, name } = ObjectKey.of(after ?? before);
      return { watch, change, key: { namespace, name }, initial, finalStateUnknown };
    });
    const batch = {
      before: (position) => this.#handles.of(changes[position]?.before),
      after: (position) => this.#handles.of(changes[position]?.after),
      afterField: (position, pointer) => json(at(changes[position]?.after, pointer)),
    };
    this.#component.observe.observe(notifications, batch);
  }

  /** Returns the values of a computed index for an object. */
  indexValues(index, object) {
    return this.#component.index.values(index, this.#handles.of(object));
  }

  #imports() {
    return {
      cache: this.#cache(),
      client: this.#client(),
      config: { get: () => this.#config },
      events: {
        publish: (object, type, reason, action, note) =>
          this.events.push({ type, reason, action, note, regarding: JSON.parse(object.json()) }),
      },
      log: { log: (level, message, fields) => this.logs.push({ level, message, fields: pairs(fields) }) },
      metrics: Object.fromEntries(
        ["counter", "gauge", "histogram"].map((type) => [
          type,
          (name, labels, value) => this.metrics.push({ type, name, labels: pairs(labels), value }),
        ]),
      ),
      queue: {
        add: (watch, key) => this.queued.push({ watch: this.#watch(watch).name, key: ObjectKey.of(key), after: undefined }),
        addAfter: (watch, key, after) => this.queued.push({ watch: this.#watch(watch).name, key: ObjectKey.of(key), after }),
      },
    };
  }

  #watch(name) {
    const found = this.descriptor.watches.find((watch) => watch.name === name);
    if (found !== undefined) return found;
    throw new Error(`unknown watch "${name}": the descriptor declares ${this.descriptor.watches.map((watch) => watch.name).join(", ")}`);
  }

  #ofWatch(name, filter = {}) {
    const { namespaces = [], labelSelector, ...watch } = this.#watch(name);
    const found = this.#store.ofKind(watch, { labelSelector });
    const wanted = new Set(this.#store.ofKind(watch, filter));
    return found.filter(
      (object) => wanted.has(object) && (namespaces.length === 0 || namespaces.includes(object.metadata.namespace)),
    );
  }

  #cache() {
    const ofIndex = (watch, index) => {
      const declared = this.#watch(watch).indexes?.find(({ name }) => name === index);
      if (declared === undefined) throw new Error(`unknown index "${index}" of the watch "${watch}"`);
      return this.#ofWatch(watch).map((object) => [object, this.#indexed(declared, object)]);
    };
    const having = (watch, index, value) =>
      ofIndex(watch, index).filter(([, values]) => values.includes(value)).map(([object]) => object);
    const key = (object) => ({ namespace: object.metadata.namespace ?? "", name: object.metadata.name });
    return {
      get: (watch, wanted) => this.#handles.of(this.#ofWatch(watch).find((object) => ObjectKey.of(object).equals(wanted))),
      list: (watch, filter) => this.#page(this.#ofWatch(watch, filter), filter),
      listFields: (watch, filter, pointers) =>
        cut(this.#ofWatch(watch, filter), { ...filter, limit: filter.limit || Infinity }).items.map((object) => ({
          key: key(object),
          values: pointers.map((pointer) => json(at(object, pointer))),
        })),
      byIndex: (watch, index, value) => having(watch, index, value).map((object) => this.#handles.of(object)),
      indexKeys: (watch, index, value) => having(watch, index, value).map(key),
      indexValues: (watch, index) => [...new Set(ofIndex(watch, index).flatMap(([, values]) => values))].sort(),
      hasSynced: (watch) => this.#watch(watch) !== undefined,
    };
  }

  #indexed(declared, object) {
    const { label, annotation, field, owner, computed } = declared;
    const { labels, annotations, ownerReferences = [] } = object.metadata;
    if (computed) return this.#plugin.indexes === undefined ? [] : this.indexValues(declared.name, object);
    if (owner) return ownerReferences.map(({ uid }) => uid);
    if (field !== undefined) return atPath(object, field);
    return [label === undefined ? annotations?.[annotation] : labels?.[label]].filter((value) => value !== undefined);
  }

  #page(objects, filter) {
    const { items, next } = cut(objects, { ...filter, limit: Math.min(filter.limit || PAGE, PAGE) });
    return { items: items.map((object) => this.#handles.of(object)), next };
  }

  #client() {
    return {
      get: (type, key) => this.#request("get", type, key, () => this.#handles.of(this.#store.expect(type, key))),
      list: (type, options) => {
        if (options.fieldSelector !== "") throw new Error("the fake host does not support field selectors");
        return this.#request("list", type, options, () => this.#page(this.#store.ofKind(type, options), options));
      },
      create: (text) => this.#write("create", JSON.parse(text), (manifest) => this.#store.create(manifest)),
      update: (text, subresource) =>
        this.#write("update", JSON.parse(text), (manifest) => this.#store.update(manifest, subresource), subresource),
      patch: (type, key, patchType, text, subresource) =>
        this.#write("patch", { ...type, metadata: key }, () => this.#patch(type, key, patchType, JSON.parse(text)), subresource),
      delete: (type, key, options) => this.#request("delete", type, key, () => this.#store.delete(type, key, options)),
    };
  }

  /** Patches an object. A server-side apply is a merge, because the fake host does not track field managers. */
  #patch(type, key, { tag }, body) {
    if (tag === "json" || tag === "strategic") throw new Error(`the fake host supports merge and apply patches, not ${tag}`);
    const present = tag === "apply" ? this.#store.find(type, key) : this.#store.expect(type, key);
    if (present === undefined) return this.#store.create({ ...body, ...type, metadata: { ...body.metadata, ...key } });
    return this.#store.update(merge(present, body), "");
  }

  #write(verb, manifest, work, subresource = "") {
    return this.#request(verb, manifest, manifest, () => this.#handles.of(work(manifest)), subresource);
  }

  #request(verb, { apiVersion, kind }, key, work, subresource = "") {
    this.requests.push({ verb, type: { apiVersion, kind }, key: verb === "list" ? undefined : ObjectKey.of(key) });
    const failure = this.#failures.shift();
    if (failure !== undefined) throw failure;
    const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
    const resource = plural(kind) + (subresource === "" ? "" : `/${subresource}`);
    const isDeclared = (this.descriptor.writes ?? []).some(
      (rule) => has(rule.apiGroups, group) && has(rule.resources, resource) && has(rule.verbs, verb),
    );
    if (!isDeclared) throw refusal("denied", { apiGroups: [group], resources: [resource], verbs: [verb], namespaces: [] });
    return work();
  }
}

function has(list, wanted) {
  return list.includes(wanted) || list.includes("*");
}

function plural(kind) {
  const lower = kind.toLowerCase();
  if (/(s|x|ch)$/.test(lower)) return `${lower}es`;
  return lower.endsWith("y") && !/[aeiou]y$/.test(lower) ? `${lower.slice(0, -1)}ies` : `${lower}s`;
}

function cut(objects, { limit, cursor }) {
  const rest = cursor === "" ? objects : objects.filter((object) => `${ObjectKey.of(object)}` > cursor);
  const items = rest.slice(0, limit);
  return { items, next: items.length < rest.length ? `${ObjectKey.of(items.at(-1))}` : "" };
}

function json(value) {
  return value === undefined ? null : JSON.stringify(value);
}

function pairs(list) {
  return Object.fromEntries(list.map(({ key, value }) => [key, value]));
}
