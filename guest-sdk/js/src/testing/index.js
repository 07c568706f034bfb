// A fake host for unit tests in Node. It calls the plugin as the real host does, with an in-memory cluster.

import { component } from "../component.js";
import { install } from "../host-in-node.js";
import { sorted } from "../json.js";
import { ObjectKey } from "../key.js";
import { Cluster, invalid, refusal } from "./cluster.js";
import { checkDescriptor } from "./descriptor.js";
import { Handles } from "./handle.js";
import { parentOf } from "./kinds.js";
import { at } from "./patches.js";
import { indexValues, labelSelector, pageOf } from "./select.js";

/** The most objects of a page. */
const PAGE = 500;

/** A programming error at which the real host ends the instance, such as the name of an unknown watch. */
export class Trap extends Error {}

/**
 * Installs a fake host with one plugin, until the next one is created. `objects` are in its cluster; `config` is the sidecar's.
 *
 * Requests have the results that a Kubernetes API server would give: resource versions and conflicts, generations, finalizers, the status
 * subresource, JSON patches, merge patches and server-side apply, and the host's refusal of undeclared writes. The watches' selectors,
 * projections and indexes are evaluated, the plugin's own writes are visible at once, and `fail` makes requests fail. An undeclared watch or
 * index throws a `Trap` out of the call. A descriptor with members that the host does not know throws a `TypeError`.
 *
 * It has no schemas, defaults, admission or garbage collector, no subresources but `status`, treats lists as one value in a server-side apply,
 * and changes queue no work. To test what depends on these, use `pilothouse dev`.
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
  /** The writes that succeeded: "create v1 ConfigMap default/web", "apply apps/v1 Deployment default/web status". */
  writes = [];
  #cluster = new Cluster();
  #handles = new Handles();
  #failures = [];
  #trap;
  #component;
  #config;
  #plugin;

  constructor(plugin, { objects = [], config = {} }) {
    this.#plugin = plugin;
    this.#config = JSON.stringify(config);
    this.#component = component(plugin);
    install(this.#imports());
    this.descriptor = JSON.parse(this.#component.plugin.describe(this.#config));
    checkDescriptor(this.descriptor);
    this.#cluster.crds = this.descriptor.crds ?? [];
    for (const object of objects) this.#cluster.put(object);
  }

  /** Returns the object in the cluster, or undefined. */
  get(type, key) {
    const found = this.#cluster.find(type, key);
    return found === undefined ? undefined : structuredClone(found);
  }

  /**
   * Creates or replaces an object in the cluster, as another client would, and returns it as stored. UID, status and finalizers are stored as
   * given. A resource version is ignored, so this never conflicts.
   */
  put(object) {
    return structuredClone(this.#cluster.put(object));
  }

  /** Deletes an object as `kubectl delete` does: an object with finalizers only gets a deletion timestamp. */
  remove(type, key) {
    this.#cluster.delete(type, key);
  }

  /** The number of handles that the plugin has open. */
  get openHandles() {
    return this.#handles.open;
  }

  /**
   * Makes the next `times` requests fail that have this verb (get, list, create, update, patch or delete) and this kind, by default any:
   * `fail("conflict", { message: "changed", resourceVersion: "" }, { verb: "update", kind: "Foo" })`. A failed request changes nothing. A
   * server-side apply has the verb `patch`.
   */
  fail(tag, val, { verb = "", kind = "", times = 1 } = {}) {
    this.#failures.push({ error: refusal(tag, val), verb, kind, times });
  }

  /** Makes the next request fail: `failNext("not-found", "gone")`. */
  failNext(tag, val) {
    this.fail(tag, val);
  }

  /**
   * Reconciles one object. Returns `{ outcome: "done" }`, `{ outcome: "requeue-after", after }`, or, for an error,
   * `{ outcome: "retry" | "terminal", message }`.
   */
  reconcile(watch, key, { reasons = ["updated"], attempt = 0 } = {}) {
    const { namespace, name } = ObjectKey.of(key);
    const request = { watch, key: { namespace, name }, reasons, attempt, extra: [] };
    try {
      const outcome = this.#call(() => this.#component.reconcile.reconcile(request));
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
    this.#call(() => this.#component.observe.observe(notifications, batch));
  }

  /** Returns the values of a computed index for an object. */
  indexValues(index, object) {
    return this.#component.index.values(index, this.#handles.of(object));
  }

  /** Calls the plugin. A trap ends the call even if the plugin catches the exception. */
  #call(work) {
    this.#trap = undefined;
    try {
      return work();
    } finally {
      // Replaces what the plugin returned or threw.
      if (this.#trap !== undefined) throw this.#trap;
    }
  }

  #trapped(message) {
    this.#trap = new Trap(message);
    return this.#trap;
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
        add: (watch, key) => this.#enqueue("queue.add", watch, key),
        addAfter: (watch, key, after) => this.#enqueue("queue.add-after", watch, key, after),
      },
    };
  }

  #enqueue(name, watch, { namespace, name: object }, after) {
    const problem = namespaceProblem(namespace) || nameProblem(object);
    if (problem) throw this.#trapped(`${name} takes keys of objects: ${problem}`);
    if (this.#watch(watch).trigger !== "self") {
      const targets = this.descriptor.watches.filter(({ trigger }) => trigger === "self").map((target) => target.name);
      throw this.#trapped(`watch "${watch}" is not a target (its trigger isn't self): targets are ${targets.join(", ") || "none"}`);
    }
    this.queued.push({ watch, key: new ObjectKey(namespace, object), after });
  }

  #watch(name) {
    const found = this.descriptor.watches.find((watch) => watch.name === name);
    if (found !== undefined) return found;
    const declared = this.descriptor.watches.map((watch) => watch.name).join(", ");
    throw this.#trapped(`unknown watch "${name}": the descriptor declares ${declared || "none"}`);
  }

  #index(watch, index) {
    const declared = this.#watch(watch).indexes ?? [];
    const found = declared.find(({ name }) => name === index);
    if (found !== undefined) return found;
    const names = declared.map(({ name }) => name).join(", ");
    throw this.#trapped(`unknown index "${index}" of watch "${watch}": the descriptor declares ${names || "none"}`);
  }

  #ofWatch(name, { namespace = "", labelSelector: selector = "" } = {}) {
    const { namespaces = [], labelSelector: labels, fieldSelector: fields, projection, ...type } = this.#watch(name);
    const found = this.#cluster
      .select(type, { labels, fields, namespace })
      .filter((object) => namespaces.length === 0 || namespaces.includes(object.metadata.namespace))
      .filter(this.#selector(selector));
    if (projection !== "metadata") return found;
    return found.map(({ apiVersion, kind, metadata }) => ({ apiVersion, kind, metadata }));
  }

  #selector(text) {
    try {
      return labelSelector(text);
    } catch (error) {
      throw this.#trapped(error.message);
    }
  }

  #cache() {
    const ofIndex = (watch, index) => {
      const declared = this.#index(watch, index);
      return this.#ofWatch(watch).map((object) => [object, this.#indexed(declared, object)]);
    };
    const having = (watch, index, value) =>
      ofIndex(watch, index).filter(([, values]) => values.includes(value)).map(([object]) => object);
    const key = (object) => ({ namespace: object.metadata.namespace ?? "", name: object.metadata.name });
    return {
      get: (watch, wanted) => this.#handles.of(this.#ofWatch(watch).find((object) => ObjectKey.of(object).equals(wanted))),
      list: (watch, filter) => this.#page(this.#ofWatch(watch, filter), filter),
      listFields: (watch, filter, pointers) =>
        pageOf(this.#ofWatch(watch, filter), { ...filter, limit: filter.limit || Infinity }).items.map((object) => ({
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
    if (!declared.computed) return indexValues(declared, object);
    return this.#plugin.indexes === undefined ? [] : this.indexValues(declared.name, object);
  }

  #page(objects, filter) {
    const { items, next } = pageOf(objects, { ...filter, limit: Math.min(filter.limit || PAGE, PAGE) });
    return { items: items.map((object) => this.#handles.of(object)), next };
  }

  #client() {
    const own = () => this.descriptor.name;
    return {
      get: (type, key, subresource) =>
        this.#request("get", type, key, subresource, () => this.#handles.of(this.#cluster.expect(type, key, subresource))),
      list: (type, { namespace, labelSelector: labels, fieldSelector: fields, ...page }) =>
        this.#request("list", type, { namespace, name: "" }, "", () => this.#page(this.#cluster.list(type, { namespace, labels, fields }), page)),
      create: (text, subresource) => this.#create(JSON.parse(text), subresource),
      update: (text, subresource) => {
        const manifest = JSON.parse(text);
        return this.#write("update", manifest, manifest, subresource, () => this.#cluster.update(manifest, subresource, own()));
      },
      patch: (type, key, patchType, text, subresource) => this.#patch(type, key, patchType, JSON.parse(text), subresource),
      delete: (type, key, options) =>
        this.#request("delete", type, key, "", () => {
          this.#cluster.delete(type, key, options);
          this.#record("delete", type, key, "");
        }),
    };
  }

  #create(manifest, subresource) {
    return this.#write("create", manifest, manifest, subresource, () => {
      if (subresource === "") return this.#cluster.create(manifest, this.descriptor.name);
      // An eviction or a token is an action, and not an object.
      this.#cluster.expect(parentOf(manifest, subresource), manifest);
      return manifest;
    });
  }

  #patch(type, key, { tag, val }, body, subresource) {
    if (tag === "strategic") throw new Error("the fake host supports json, merge and apply patches, not strategic");
    const own = this.descriptor.name;
    if (tag !== "apply") {
      return this.#write("patch", type, key, subresource, () => this.#cluster.patch(type, key, tag, body, subresource, own));
    }
    const manager = val.fieldManager || own;
    const apply = () => {
      if (manager !== own && !manager.startsWith(`${own}/`)) {
        throw invalid("fieldManager", `write "${own}", ${own}/ and a name of your own, or leave it out`);
      }
      return this.#cluster.apply(type, key, body, { subresource, manager: `${manager} apply`, force: val.force });
    };
    return this.#write("apply", type, key, subresource, apply);
  }

  #write(verb, type, key, subresource, work) {
    return this.#request(verb === "apply" ? "patch" : verb, type, key, subresource, () => {
      const stored = work();
      this.#record(verb, stored, stored, subresource);
      return this.#handles.of(stored);
    });
  }

  #record(verb, { apiVersion, kind }, key, subresource) {
    const about = `${verb} ${apiVersion} ${kind} ${ObjectKey.of(key)}`;
    this.writes.push(subresource === "" ? about : `${about} ${subresource}`);
  }

  /** Checks a request as the host does before it sends it, fails it if the test said so, or does the work. */
  #request(verb, { apiVersion = "", kind = "" }, at, subresource, work) {
    const { namespace = "", name = "" } = at.metadata ?? at;
    this.requests.push({ verb, type: { apiVersion, kind }, key: verb === "list" ? undefined : new ObjectKey(namespace, name) });
    for (const [field, value] of Object.entries({ apiVersion, kind })) {
      if (value === "") throw invalid(field, "the manifest must set it");
    }
    const problem = namespaceProblem(namespace);
    if (problem) throw invalid("metadata.namespace", problem);
    if (name !== "" && nameProblem(name)) throw invalid("metadata.name", nameProblem(name));
    const of = this.#cluster.kind(parentOf({ apiVersion, kind }, subresource));
    this.#allow(verb, of, namespace, subresource);
    if (of.namespaced === true && namespace === "" && verb !== "list") {
      throw invalid("metadata.namespace", `it is empty, but ${of.plural} are namespaced: name a namespace`);
    }
    if (of.namespaced === false && namespace !== "") {
      throw invalid("metadata.namespace", `${of.plural} are cluster-scoped: leave the namespace out`);
    }
    if (name === "" && verb !== "list" && (verb !== "create" || subresource !== "")) throw invalid("metadata.name", "it is empty");
    if (verb !== "create" && !["", "status"].includes(subresource)) {
      throw new Error(`the fake host has no subresource ${subresource}: test it with \`pilothouse dev\``);
    }
    const matches = (failure) => failure.times > 0 && ["", verb].includes(failure.verb) && ["", kind].includes(failure.kind);
    const failure = this.#failures.find(matches);
    if (failure === undefined) return work();
    failure.times -= 1;
    throw failure.error;
  }

  #allow(verb, { group, plural, namespaced }, namespace, subresource) {
    const resource = subresource === "" ? plural : `${plural}/${subresource}`;
    const inNamespace = namespaced === false ? "" : namespace;
    if ((this.descriptor.writes ?? []).some((rule) => covers(rule, group, resource, verb, inNamespace))) return;
    const namespaces = inNamespace === "" ? [] : [inNamespace];
    throw refusal("denied", { apiGroups: [group], resources: [resource], verbs: [verb], namespaces });
  }
}

function covers({ apiGroups, resources, verbs, namespaces = [] }, group, resource, verb, namespace) {
  const subresource = resource.split("/")[1];
  const isEverywhere = namespaces.length === 0 || namespaces.includes("*");
  return (
    hasOne(apiGroups, "*", group) &&
    hasOne(resources, "*", resource, subresource === undefined ? resource : `*/${subresource}`) &&
    hasOne(verbs, "*", verb) &&
    (isEverywhere || (namespace !== "" && namespaces.includes(namespace)))
  );
}

function hasOne(list, ...wanted) {
  return wanted.some((one) => list.includes(one));
}

function namespaceProblem(namespace) {
  const isValid = namespace === "" || /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(namespace);
  return isValid ? "" : `"${namespace}" is not the name of a namespace`;
}

function nameProblem(name) {
  if (name === "") return "the name is empty";
  const isInvalid = name.length > 253 || name === "." || name === ".." || /[/%\x00-\x1f\x7f]/.test(name);
  return isInvalid ? `"${name}" is not the name of an object` : "";
}

function json(value) {
  return value === undefined ? null : JSON.stringify(sorted(value));
}

function pairs(list) {
  return Object.fromEntries(list.map(({ key, value }) => [key, value]));
}
