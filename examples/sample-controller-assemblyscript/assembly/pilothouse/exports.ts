// The exports: their arguments and results.

import { allocate, freeAll, optionalTextAt, RESULT, storeTexts, Text, textAt } from "./abi";
import { closeAll, KubeObject, optionalObjectAt } from "./object";
import { Key, keyAt } from "./types";

@external("pilothouse", "changes_batch_before")
declare function batchBefore(batch: i32, position: u32, result: usize): void;
@external("pilothouse", "changes_batch_after")
declare function batchAfter(batch: i32, position: u32, result: usize): void;
@external("pilothouse", "changes_batch_after_field")
declare function batchAfterField(batch: i32, position: u32, pointer: usize, pointerLength: usize, result: usize): void;
@external("pilothouse", "changes_batch_drop")
declare function dropBatch(batch: i32): void;

/** Why an object was queued, in the order of `reason` in types.wit. */
export enum Reason {
  Created,
  Updated,
  Deleted,
  Resync,
  Requeue,
  Retry,
  Startup,
  Other,
}

/** What to reconcile. */
@final
export class Request {
  constructor(
    readonly watch: string,
    readonly key: Key,
    readonly reasons: Reason[],
    /** How often this key has failed since it last succeeded. */
    readonly attempt: u32,
  ) {}
}

/** The result of a reconcile: done, to be called again after a delay, or failed. */
@final
export class Outcome {
  private constructor(
    readonly isFailure: bool,
    /** The position of the case in `outcome` or `failure` of types.wit. */
    readonly position: u8,
    readonly milliseconds: u32,
    readonly text: string,
  ) {}

  static done(): Outcome {
    return new Outcome(false, 0, 0, "");
  }

  static requeueAfter(milliseconds: u32): Outcome {
    return new Outcome(false, 1, milliseconds, "");
  }

  /** A failure that is retried with backoff. */
  static retry(text: string): Outcome {
    return new Outcome(true, 0, 0, text);
  }

  /** A failure that is not retried until the object changes. */
  static terminal(text: string): Outcome {
    return new Outcome(true, 1, 0, text);
  }

  /** Stores the outcome as the result of an export, and returns its address. */
  store(): usize {
    const result = allocate(16);
    store<u8>(result, this.isFailure);
    store<u8>(result, this.position, 4);
    if (this.isFailure) new Text(this.text).storeAt(result + 8);
    else store<u32>(result, this.milliseconds, 8);
    return result;
  }
}

/** Returns the result of `describe`: the descriptor, or an error, for which the host refuses the plugin. */
export function description(text: string, isError: bool = false): usize {
  const result = allocate(12);
  store<u8>(result, isError);
  new Text(text).storeAt(result + 4);
  return result;
}

/** Reads the arguments of `reconcile` and calls the function. */
export function runReconcile(
  work: (request: Request) => Outcome,
  watch: usize, watchLength: usize, namespace: usize, namespaceLength: usize, name: usize, nameLength: usize,
  reasons: usize, reasonCount: usize, attempt: u32,
): usize {
  const list = new Array<Reason>();
  for (let i: usize = 0; i < reasonCount; i++) list.push(<Reason>load<u8>(reasons + i));
  const key = new Key(String.UTF8.decodeUnsafe(namespace, namespaceLength), String.UTF8.decodeUnsafe(name, nameLength));
  const outcome = work(new Request(String.UTF8.decodeUnsafe(watch, watchLength), key, list, attempt));
  closeAll();
  return outcome.store();
}

/** How an object changed, in the order of `change` in types.wit. */
export enum Change {
  Added,
  Updated,
  Deleted,
  Resync,
}

/** A change of an object that is delivered to an observer. */
@final
export class Notification {
  constructor(
    readonly watch: string,
    readonly change: Change,
    readonly key: Key,
    readonly isInitial: bool,
    readonly isFinalStateUnknown: bool,
    private readonly batch: i32,
    private readonly position: u32,
  ) {}

  /** Returns the object before the change; null for an addition. */
  before(): KubeObject | null {
    batchBefore(this.batch, this.position, RESULT);
    return optionalObjectAt(RESULT);
  }

  /** Returns the object after the change; null for a deletion. */
  after(): KubeObject | null {
    batchAfter(this.batch, this.position, RESULT);
    return optionalObjectAt(RESULT);
  }

  /** Returns the JSON at a JSON pointer of the object after the change, without opening it. */
  afterField(pointer: string): string | null {
    const path = new Text(pointer);
    batchAfterField(this.batch, this.position, path.pointer, path.length, RESULT);
    return optionalTextAt(RESULT);
  }
}

/** Reads the arguments of `observe` and calls the function. */
export function runObserve(work: (notifications: Notification[]) => Outcome, notifications: usize, count: usize, batch: i32): usize {
  const list = new Array<Notification>();
  for (let i: usize = 0; i < count; i++) {
    const item = notifications + 32 * i;
    const change = <Change>load<u8>(item, 8);
    list.push(new Notification(textAt(item), change, keyAt(item + 12), load<bool>(item, 28), load<bool>(item, 29), batch, <u32>i));
  }
  const outcome = work(list);
  closeAll();
  dropBatch(batch);
  return outcome.store();
}

/** Reads the arguments of `index.values` and calls the function. */
export function runIndex(work: (index: string, object: KubeObject) => string[], index: usize, indexLength: usize, object: i32): usize {
  const values = work(String.UTF8.decodeUnsafe(index, indexLength), new KubeObject(object));
  closeAll();
  const result = allocate(8);
  store<usize>(result, storeTexts(values));
  store<usize>(result, values.length, 4);
  return result;
}

/** Ends a call: the host has read its result. */
export function endCall(_result: usize): void {
  freeAll();
}
