// Plain data: keys, kinds and pairs.

import { allocate, Text, textAt } from "./abi";

/** Identifies an object of a kind. The namespace of cluster-scoped objects is "". */
@final
export class Key {
  constructor(
    readonly namespace: string,
    readonly name: string,
  ) {}

  /** Returns `namespace/name`, or `name` without a namespace. */
  toString(): string {
    return this.namespace.length ? this.namespace + "/" + this.name : this.name;
  }
}

export function keyAt(address: usize): Key {
  return new Key(textAt(address), textAt(address + 8));
}

export function keysAt(address: usize): Key[] {
  const items = load<usize>(address);
  const keys = new Array<Key>();
  const count = load<i32>(address, 4);
  for (let i = 0; i < count; i++) keys.push(keyAt(items + 16 * i));
  return keys;
}

/** A kind in one API version, such as `apps/v1` and `Deployment`. */
@final
export class Kind {
  constructor(
    readonly apiVersion: string,
    readonly kind: string,
  ) {}
}

/** A label, or a field of a log line. */
@final
export class Pair {
  constructor(
    readonly key: string,
    readonly value: string,
  ) {}
}

export function pairsAt(address: usize): Pair[] {
  const items = load<usize>(address);
  const pairs = new Array<Pair>();
  const count = load<i32>(address, 4);
  for (let i = 0; i < count; i++) pairs.push(new Pair(textAt(items + 16 * i), textAt(items + 16 * i + 8)));
  return pairs;
}

/** Stores a list of pairs, and returns its address. */
export function storePairs(pairs: Pair[]): usize {
  const items = allocate(16 * pairs.length);
  for (let i = 0; i < pairs.length; i++) {
    new Text(pairs[i].key).storeAt(items + 16 * i);
    new Text(pairs[i].value).storeAt(items + 16 * i + 8);
  }
  return items;
}
