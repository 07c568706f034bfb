import { events as witEvents, queue as witQueue } from "#host";
import { Cache } from "./cache.js";
import * as client from "./client.js";
import { ApiError } from "./errors.js";
import { ObjectKey, witKey } from "./key.js";
import * as log from "./log.js";
import { witDelay } from "./number.js";
import { KubeObject, originOf } from "./object.js";

/** Gives access to the host during one call. */
export class Context {
  /** Records Kubernetes Events, which `kubectl describe` shows. */
  events;

  /** @param request undefined outside of a reconcile */
  constructor(request) {
    this.events = new Events(request);
  }

  /** Reads the objects of a declared watch from the host's memory. */
  cache(watch) {
    return new Cache(watch);
  }

  /** Queues work for objects of one target watch. */
  queue(watch) {
    return new Queue(watch);
  }
}

/** Queues work for objects of one target watch (one with the trigger `self`). The objects need not exist. */
export class Queue {
  #watch;

  constructor(watch) {
    this.#watch = watch;
  }

  /** Queues the object now. The queue holds a key at most once; adding the key that is being reconciled runs it once more afterwards. */
  add(key) {
    witQueue.add(this.#watch, witKey(key));
  }

  /** Queues the object after a delay in milliseconds, at most about 24 days. Of several delays the earliest applies. */
  addAfter(key, milliseconds) {
    witQueue.addAfter(this.#watch, witKey(key), witDelay(milliseconds));
  }
}

/**
 * Records Kubernetes Events. The host counts equal Events as one; recording one never waits or fails.
 *
 * `reason` and `action` are UpperCamelCase identifiers (`Created`, `Scaling`); `note` is a sentence for people.
 */
export class Events {
  #request;

  constructor(request) {
    this.#request = request;
  }

  /** Records a normal Event. */
  normal(regarding, reason, action, note) {
    this.#publish("normal", regarding, reason, action, note);
  }

  /** Records a warning, for what may need attention. */
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

  /** Returns the handle of an object: the one that it was read from, else the one of the object in the cache, else one from the server. */
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
