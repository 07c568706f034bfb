import { ObjectKey } from "./key.js";
import { KubeObject, parsed } from "./object.js";

/** One change of one object, as an observer is told. */
export class Notification {
  #batch;
  #position;

  constructor(told, batch, position) {
    this.#batch = batch;
    this.#position = position;
    /** The name of the watch in the descriptor. */
    this.watch = told.watch;
    /** `added`, `updated`, `deleted` or `resync`. */
    this.change = told.change;
    this.key = ObjectKey.of(told.key);
    /** An `added` that replays what was there before this instance saw it. */
    this.initial = told.initial;
    /** A `deleted` that the watch missed: the last state known may be older than the last one there was. */
    this.finalStateUnknown = told.finalStateUnknown;
  }

  /** The state before; undefined for an addition. Of a deletion, the last state known. */
  before() {
    return wrapped(this.#batch.before(this.#position));
  }

  /** The state after; undefined for a deletion. */
  after() {
    return wrapped(this.#batch.after(this.#position));
  }

  /** The value at an RFC 6901 pointer of the state after, without taking the object: the cheapest way to one value. */
  field(pointer) {
    return parsed(this.#batch.afterField(this.#position, pointer));
  }

  /** `default/web updated in pods` */
  toString() {
    return `${this.key} ${this.change} in ${this.watch}`;
  }
}

function wrapped(raw) {
  return raw === null || raw === undefined ? undefined : new KubeObject(raw);
}
