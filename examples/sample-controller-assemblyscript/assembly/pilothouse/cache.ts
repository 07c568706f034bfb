// Reads of the plugin's watches. They send no requests.

import { optionalTextsAt, RESULT, storeTexts, Text, textsAt } from "./abi";
import { KubeObject, objectsAt, optionalObjectAt, Page, pageAt } from "./object";
import { Key, keyAt, keysAt } from "./types";

@external("pilothouse", "cache_get")
declare function hostGet(watch: usize, watchLength: usize, namespace: usize, namespaceLength: usize, name: usize, nameLength: usize, result: usize): void;
@external("pilothouse", "cache_list")
declare function hostList(watch: usize, watchLength: usize, namespace: usize, namespaceLength: usize, selector: usize, selectorLength: usize, limit: u32, cursor: usize, cursorLength: usize, result: usize): void;
@external("pilothouse", "cache_list_fields")
declare function hostListFields(watch: usize, watchLength: usize, namespace: usize, namespaceLength: usize, selector: usize, selectorLength: usize, limit: u32, cursor: usize, cursorLength: usize, pointers: usize, pointerCount: usize, result: usize): void;
@external("pilothouse", "cache_by_index")
declare function hostByIndex(watch: usize, watchLength: usize, index: usize, indexLength: usize, value: usize, valueLength: usize, result: usize): void;
@external("pilothouse", "cache_index_keys")
declare function hostIndexKeys(watch: usize, watchLength: usize, index: usize, indexLength: usize, value: usize, valueLength: usize, result: usize): void;
@external("pilothouse", "cache_index_values")
declare function hostIndexValues(watch: usize, watchLength: usize, index: usize, indexLength: usize, result: usize): void;
@external("pilothouse", "cache_has_synced")
declare function hostHasSynced(watch: usize, watchLength: usize): bool;

/** Selects objects of a watch. The default selects all of them. */
@final
export class Filter {
  namespace: string = "";
  labelSelector: string = "";
  /** The maximum number of objects in a page; 0 for the host's maximum. */
  limit: u32 = 0;
  /** `next` of the previous page. */
  cursor: string = "";
}

/** The values of one object. */
@final
export class Row {
  constructor(
    readonly key: Key,
    readonly values: Array<string | null>,
  ) {}
}

/** One of the plugin's watches. */
@final
export class Watch {
  constructor(readonly name: string) {}

  get(key: Key): KubeObject | null {
    const watch = new Text(this.name), namespace = new Text(key.namespace), name = new Text(key.name);
    hostGet(watch.pointer, watch.length, namespace.pointer, namespace.length, name.pointer, name.length, RESULT);
    return optionalObjectAt(RESULT);
  }

  list(filter: Filter): Page {
    const watch = new Text(this.name), namespace = new Text(filter.namespace);
    const selector = new Text(filter.labelSelector), cursor = new Text(filter.cursor);
    hostList(watch.pointer, watch.length, namespace.pointer, namespace.length, selector.pointer, selector.length,
      filter.limit, cursor.pointer, cursor.length, RESULT);
    return pageAt(RESULT);
  }

  /** Returns the values at JSON pointers of many objects, without opening them. */
  listFields(filter: Filter, pointers: string[]): Row[] {
    const watch = new Text(this.name), namespace = new Text(filter.namespace);
    const selector = new Text(filter.labelSelector), cursor = new Text(filter.cursor);
    hostListFields(watch.pointer, watch.length, namespace.pointer, namespace.length, selector.pointer, selector.length,
      filter.limit, cursor.pointer, cursor.length, storeTexts(pointers), pointers.length, RESULT);
    const items = load<usize>(RESULT), count = load<i32>(RESULT, 4);
    const rows = new Array<Row>();
    for (let i = 0; i < count; i++) rows.push(new Row(keyAt(items + 24 * i), optionalTextsAt(items + 24 * i + 16)));
    return rows;
  }

  byIndex(index: string, value: string): KubeObject[] {
    const watch = new Text(this.name), name = new Text(index), text = new Text(value);
    hostByIndex(watch.pointer, watch.length, name.pointer, name.length, text.pointer, text.length, RESULT);
    return objectsAt(RESULT);
  }

  indexKeys(index: string, value: string): Key[] {
    const watch = new Text(this.name), name = new Text(index), text = new Text(value);
    hostIndexKeys(watch.pointer, watch.length, name.pointer, name.length, text.pointer, text.length, RESULT);
    return keysAt(RESULT);
  }

  indexValues(index: string): string[] {
    const watch = new Text(this.name), name = new Text(index);
    hostIndexValues(watch.pointer, watch.length, name.pointer, name.length, RESULT);
    return textsAt(RESULT);
  }

  hasSynced(): bool {
    const watch = new Text(this.name);
    return hostHasSynced(watch.pointer, watch.length);
  }
}
