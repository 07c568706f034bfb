import { events as witEvents, queue as witQueue } from "#host";
import { Cache } from "./cache.js";
import * as client from "./client.js";
import { ApiError } from "./errors.js";
import { ObjectKey, witKey } from "./key.js";
import * as log from "./log.js";
import { witDelay } from "./number.js";
import { KubeObject, originOf } from "./object.js";

/** The host, as seen from one call. */
export class Context {
  /** Kubernetes Events, the ones that `kubectl describe` shows. */
  events;

  /** @param request undefined outside of a reconcile */
  constructor(request) {
    this.events = new Events(request);
  }

  /** The objects of a declared watch, as the host has them in memory. */
  cache(watch) {
    return new Cache(watch);
  }

  /** More work, for objects of one target watch. */
  queue(watch) {
    return new Queue(watch);
  }
}

/** More work, for objects of one target watch. The objects need not exist. */
export class Queue {
  #watch;

  constructor(watch) {
    this.#watch = watch;
  }

  /** Queues the object now, once however often it is added. The one being reconciled runs once more afterwards. */
  add(key) {
    witQueue.add(this.#watch, witKey(key));
  }

  /** Queues the object after so many milliseconds; of two delays the earlier wins. At most about 24 days. */
  addAfter(key, milliseconds) {
    witQueue.addAfter(this.#watch, witKey(key), witDelay(milliseconds));
  }
}

/**
 * Records Kubernetes Events. Like ones are aggregated by the host; writing never waits and never fails.
 *
 * `reason` and `action` are UpperCamelCase words for machines (`Created`, `Scaling`), `note` a sentence for people.
 */
export class Events {
  #request;

  constructor(request) {
    this.#request = request;
  }

  /** Something went as it should. */
  normal(regarding, reason, action, note) {
    this.#publish("normal", regarding, reason, action, note);
  }

  /** Something that somebody may have to look at. */
  warning(regarding, reason, action, note) {
    this.#publish("warning", regarding, reason, action, note);
  }

  #publish(type, regarding, reason, action, note) {
    const object = this.#handleOf(regarding);
    if (object === undefined) {
      const { apiVersion, kind } = regarding ?? {};
      log.warn(`no Event: ${apiVersion} ${kind} is not known to the host; it would have said: ${note}`, { reason });
      return;
    }
    witEvents.publish(KubeObject.raw(object), type, reason, action, log.text(note));
  }

  /** The handle of an object: as it was read, else as the cache has the object at hand, else from the server. */
  #handleOf(regarding) {
    if (regarding instanceof KubeObject) return regarding;
    const origin = originOf(regarding);
    if (origin !== undefined) return origin;
    const uid = regarding?.metadata?.uid;
    if (uid === undefined) return undefined;
    const key = ObjectKey.of(regarding);
    const request = this.#request;
    if (request?.key.equals(key)) {
      const atHand = new Cache(request.watch).get(key);
      if (atHand?.uid === uid) return atHand;
    }
    try {
      return client.get(regarding, key);
    } catch (error) {
      if (error instanceof ApiError) return undefined;
      throw error;
    }
  }
}
