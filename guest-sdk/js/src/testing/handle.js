// A fake of the contract's resource `object`.

import { sorted } from "../json.js";
import { ObjectKey } from "../key.js";
import { at } from "./patches.js";

/** Counts handles, and records whether they were closed. */
export class Handles {
  open = 0;

  of(object) {
    if (object === undefined) return null;
    this.open += 1;
    return new Handle(sorted(object), this);
  }

  closed() {
    this.open -= 1;
  }
}

class Handle {
  #object;
  #handles;

  constructor(object, handles) {
    this.#object = object;
    this.#handles = handles;
  }

  get #json() {
    if (this.#object === undefined) throw new TypeError("resource has been disposed");
    return this.#object;
  }

  key() {
    const { namespace, name } = ObjectKey.of(this.#json);
    return { namespace, name };
  }

  apiVersion() {
    return this.#json.apiVersion;
  }

  kind() {
    return this.#json.kind;
  }

  uid() {
    return this.#json.metadata.uid ?? "";
  }

  resourceVersion() {
    return this.#json.metadata.resourceVersion ?? "";
  }

  generation() {
    return this.#json.metadata.generation ?? 0;
  }

  labels() {
    return Object.entries(this.#json.metadata.labels ?? {}).map(([key, value]) => ({ key, value }));
  }

  label(key) {
    return this.#json.metadata.labels?.[key] ?? null;
  }

  annotation(key) {
    return this.#json.metadata.annotations?.[key] ?? null;
  }

  deletionTimestamp() {
    return this.#json.metadata.deletionTimestamp ?? null;
  }

  controller() {
    const owner = this.#json.metadata.ownerReferences?.find((reference) => reference.controller);
    if (owner === undefined) return null;
    const { apiVersion, kind, name, uid } = owner;
    return { apiVersion, kind, name, uid };
  }

  field(pointer) {
    const value = at(this.#json, pointer);
    return value === undefined ? null : JSON.stringify(value);
  }

  text(pointer) {
    const value = at(this.#json, pointer);
    return typeof value === "string" ? value : this.field(pointer);
  }

  fields(pointers) {
    return pointers.map((pointer) => this.field(pointer));
  }

  texts(pointers) {
    return pointers.map((pointer) => this.text(pointer));
  }

  json() {
    return JSON.stringify(this.#json);
  }

  [Symbol.dispose]() {
    if (this.#object !== undefined) this.#handles.closed();
    this.#object = undefined;
  }
}
