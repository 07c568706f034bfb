import { cache as wit } from "#host";
import { ObjectKey, witKey } from "./key.js";
import { witLimit } from "./number.js";
import { KubeObject, parsed } from "./object.js";

/**
 * The objects of one watch, in the host's memory. No read here reaches the API server.
 *
 * Reads include this plugin's own writes at once; everything else is as fresh as the watch. A watch or index that the descriptor does not
 * have ends the call, with a message that lists those it has.
 */
export class Cache {
  #watch;

  constructor(watch) {
    if (typeof watch !== "string") throw new TypeError(`a watch is named by a string, not ${watch}`);
    this.#watch = watch;
  }

  /** The object with this key; undefined when the watch does not have it. */
  get(key) {
    const raw = wit.get(this.#watch, witKey(key));
    return raw === null || raw === undefined ? undefined : new KubeObject(raw);
  }

  /** All objects that the query names, in the order of namespace and name; the next page is read when the loop gets there. */
  *list(query = {}) {
    let cursor = query.cursor;
    do {
      const page = this.page({ ...query, cursor });
      yield* page.items;
      cursor = page.next;
    } while (cursor !== undefined);
  }

  /** One page. `next` is the cursor of the page after it; undefined after the last. */
  page(query = {}) {
    const { items, next } = wit.list(this.#watch, filter(query));
    return { items: items.map((raw) => new KubeObject(raw)), next: next === "" ? undefined : next };
  }

  /** Values at RFC 6901 pointers of many objects in one call, without a handle: `{ key, values }` for each object. */
  listFields(query, ...pointers) {
    const rows = wit.listFields(this.#watch, filter(query), pointers);
    return rows.map(({ key, values }) => ({ key: ObjectKey.of(key), values: values.map(parsed) }));
  }

  /** All objects with this value in a declared index. */
  byIndex(index, value) {
    return wit.byIndex(this.#watch, index, value).map((raw) => new KubeObject(raw));
  }

  /** The keys of the objects with this index value: no handle is opened. */
  indexKeys(index, value) {
    return wit.indexKeys(this.#watch, index, value).map((key) => ObjectKey.of(key));
  }

  /** The values that at least one object has. */
  indexValues(index) {
    return wit.indexValues(this.#watch, index);
  }

  /** Whether the watch's first list has been taken in whole. Always true in `reconcile`. */
  hasSynced() {
    return wit.hasSynced(this.#watch);
  }
}

function filter({ namespace = "", labelSelector = "", limit = 0, cursor = "" }) {
  return { namespace, labelSelector, limit: witLimit(limit), cursor };
}
