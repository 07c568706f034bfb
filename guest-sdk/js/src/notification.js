import { ObjectKey } from "./key.js";
import { KubeObject, parsed } from "./object.js";

/** One change of one object. */
export class Notification {
  #batch;
  #position;

  constructor(notification, batch, position) {
    this.#batch = batch;
    this.#position = position;
    /** The name of the watch in the descriptor. */
    this.watch = notification.watch;
    /** `added`, `updated`, `deleted` or `resync`. */
    this.change = notification.change;
    this.key = ObjectKey.of(notification.key);
    /** Whether this `added` replays an object that existed before this instance started to observe. */
    this.initial = notification.initial;
    /** Whether the watch missed this `deleted`, so that the last known state may be older than the object's final state. */
    this.finalStateUnknown = notification.finalStateUnknown;
  }

  /** Returns the object before the change: undefined for an addition, the last known state for a deletion. */
  before() {
    return wrapped(this.#batch.before(this.#position));
  }

  /** Returns the object after the change; undefined for a deletion. */
  after() {
    return wrapped(this.#batch.after(this.#position));
  }

  /** Returns the value at a JSON pointer (RFC 6901) of the object after the change. The cheapest way to read one value: opens no handle. */
  field(pointer) {
    return parsed(this.#batch.afterField(this.#position, pointer));
  }

  /** Returns a text such as `default/web updated in pods`. */
  toString() {
    return `${this.key} ${this.change} in ${this.watch}`;
  }
}

function wrapped(raw) {
  return raw === null || raw === undefined ? undefined : new KubeObject(raw);
}
