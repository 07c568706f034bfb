import { cache as wit } from "#host";
import { ObjectKey, witKey } from "./key.js";
import { witLimit } from "./number.js";
import { KubeObject, parsed } from "./object.js";

/**
 * Reads the objects of one watch from the host's memory. No method sends a request to the API server.
 *
 * The plugin's own writes are visible immediately; everything else is as fresh as the watch. A watch or index that the descriptor does not
 * declare ends the call, with a message that lists the declared ones.
 */
export class Cache {
  #watch;

  constructor(watch) {
    if (typeof watch !== "string") throw new TypeError(`the name of a watch is a string, not ${watch}`);
    this.#watch = watch;
  }

  /** Returns the object with this key, or undefined when the watch does not contain it. */
  get(key) {
    const raw = wit.get(this.#watch, witKey(key));
    return raw === null || raw === undefined ? undefined : new KubeObject(raw);
  }

  /** Yields all objects that the query selects, ordered by namespace, then name. Reads the next page when the loop reaches it. */
  *list(query = {}) {
    let cursor = query.cursor;
    do {
      const page = this.page({ ...query, cursor });
      yield* page.items;
      cursor = page.next;
    } while (cursor !== undefined);
  }

  /** Returns one page. Its `next` is the cursor of the next page; undefined after the last page. */
  page(query = {}) {
    const { items, next } = wit.list(this.#watch, filter(query));
    return { items: items.map((raw) => new KubeObject(raw)), next: next === "" ? undefined : next };
  }

  /** Returns the values at JSON pointers (RFC 6901, at most 64) of many objects in one call, without opening handles: `{ key, values }` for each
   * object. */
  listFields(query, ...pointers) {
    const rows = wit.listFields(this.#watch, filter(query), pointers);
    return rows.map(({ key, values }) => ({ key: ObjectKey.of(key), values: values.map(parsed) }));
  }

  /** Returns all objects with this value in a declared index. */
  byIndex(index, value) {
    return wit.byIndex(this.#watch, index, value).map((raw) => new KubeObject(raw));
  }

  /** Returns the keys of the objects with this index value, without opening handles. */
  indexKeys(index, value) {
    return wit.indexKeys(this.#watch, index, value).map((key) => ObjectKey.of(key));
  }

  /** Returns all values of an index that at least one object has, sorted. */
  indexValues(index) {
    return wit.indexValues(this.#watch, index);
  }

  /** Returns whether the watch's initial list is complete in the cache. Always true in `reconcile`; an observer may see it become true. */
  hasSynced() {
    return wit.hasSynced(this.#watch);
  }
}

function filter({ namespace = "", labelSelector = "", limit = 0, cursor = "" }) {
  return { namespace, labelSelector, limit: witLimit(limit), cursor };
}
