// Objects of the cluster. A handle refers to one immutable state of an object.

import { optionalTextAt, optionalTextsAt, RESULT, storeTexts, Text, textAt } from "./abi";
import { Key, keyAt, Pair, pairsAt } from "./types";

@external("pilothouse", "objects_object_key") declare function objectKey(object: i32, result: usize): void;
@external("pilothouse", "objects_object_api_version") declare function objectApiVersion(object: i32, result: usize): void;
@external("pilothouse", "objects_object_kind") declare function objectKind(object: i32, result: usize): void;
@external("pilothouse", "objects_object_uid") declare function objectUid(object: i32, result: usize): void;
@external("pilothouse", "objects_object_resource_version") declare function objectResourceVersion(object: i32, result: usize): void;
@external("pilothouse", "objects_object_generation") declare function objectGeneration(object: i32): u32;
@external("pilothouse", "objects_object_labels") declare function objectLabels(object: i32, result: usize): void;
@external("pilothouse", "objects_object_label") declare function objectLabel(object: i32, key: usize, keyLength: usize, result: usize): void;
@external("pilothouse", "objects_object_annotation") declare function objectAnnotation(object: i32, key: usize, keyLength: usize, result: usize): void;
@external("pilothouse", "objects_object_deletion_timestamp") declare function objectDeletionTimestamp(object: i32, result: usize): void;
@external("pilothouse", "objects_object_controller") declare function objectController(object: i32, result: usize): void;
@external("pilothouse", "objects_object_field") declare function objectField(object: i32, pointer: usize, pointerLength: usize, result: usize): void;
@external("pilothouse", "objects_object_text") declare function objectText(object: i32, pointer: usize, pointerLength: usize, result: usize): void;
@external("pilothouse", "objects_object_fields") declare function objectFields(object: i32, pointers: usize, count: usize, result: usize): void;
@external("pilothouse", "objects_object_texts") declare function objectTexts(object: i32, pointers: usize, count: usize, result: usize): void;
@external("pilothouse", "objects_object_json") declare function objectJson(object: i32, result: usize): void;
@external("pilothouse", "objects_object_drop") declare function dropObject(object: i32): void;

/** The handles that were opened in this call. */
const opened: i32[] = [];

/** Closes the objects of the call. */
export function closeAll(): void {
  for (let i = 0; i < opened.length; i++) dropObject(opened[i]);
  opened.length = 0;
}

/** An owner reference. */
@final
export class Owner {
  constructor(
    readonly apiVersion: string,
    readonly kind: string,
    readonly name: string,
    readonly uid: string,
  ) {}
}

/** An object. It is closed at the end of the call. */
@final
export class KubeObject {
  constructor(readonly handle: i32) {
    opened.push(handle);
  }

  get key(): Key {
    objectKey(this.handle, RESULT);
    return keyAt(RESULT);
  }

  get apiVersion(): string {
    objectApiVersion(this.handle, RESULT);
    return textAt(RESULT);
  }

  get kind(): string {
    objectKind(this.handle, RESULT);
    return textAt(RESULT);
  }

  get uid(): string {
    objectUid(this.handle, RESULT);
    return textAt(RESULT);
  }

  get resourceVersion(): string {
    objectResourceVersion(this.handle, RESULT);
    return textAt(RESULT);
  }

  get generation(): u32 {
    return objectGeneration(this.handle);
  }

  get labels(): Pair[] {
    objectLabels(this.handle, RESULT);
    return pairsAt(RESULT);
  }

  label(key: string): string | null {
    const name = new Text(key);
    objectLabel(this.handle, name.pointer, name.length, RESULT);
    return optionalTextAt(RESULT);
  }

  annotation(key: string): string | null {
    const name = new Text(key);
    objectAnnotation(this.handle, name.pointer, name.length, RESULT);
    return optionalTextAt(RESULT);
  }

  get deletionTimestamp(): string | null {
    objectDeletionTimestamp(this.handle, RESULT);
    return optionalTextAt(RESULT);
  }

  /** Returns the owner reference with `controller: true`. */
  get controller(): Owner | null {
    objectController(this.handle, RESULT);
    if (!load<u8>(RESULT)) return null;
    return new Owner(textAt(RESULT + 4), textAt(RESULT + 12), textAt(RESULT + 20), textAt(RESULT + 28));
  }

  /** Returns whether `owner` controls this object. */
  isControlledBy(owner: KubeObject): bool {
    const controller = this.controller;
    return controller != null && controller.uid == owner.uid;
  }

  /** Returns the JSON at a JSON pointer; null if nothing is there. */
  field(pointer: string): string | null {
    const path = new Text(pointer);
    objectField(this.handle, path.pointer, path.length, RESULT);
    return optionalTextAt(RESULT);
  }

  /** Returns the text at a JSON pointer: a string without quotes and escapes, other values as JSON; null if nothing is there. */
  text(pointer: string): string | null {
    const path = new Text(pointer);
    objectText(this.handle, path.pointer, path.length, RESULT);
    return optionalTextAt(RESULT);
  }

  fields(pointers: string[]): Array<string | null> {
    objectFields(this.handle, storeTexts(pointers), pointers.length, RESULT);
    return optionalTextsAt(RESULT);
  }

  texts(pointers: string[]): Array<string | null> {
    objectTexts(this.handle, storeTexts(pointers), pointers.length, RESULT);
    return optionalTextsAt(RESULT);
  }

  /** Returns the whole object as JSON. */
  json(): string {
    objectJson(this.handle, RESULT);
    return textAt(RESULT);
  }
}

export function optionalObjectAt(address: usize): KubeObject | null {
  return load<u8>(address) ? new KubeObject(load<i32>(address, 4)) : null;
}

export function objectsAt(address: usize): KubeObject[] {
  const handles = load<usize>(address);
  const objects = new Array<KubeObject>();
  const count = load<i32>(address, 4);
  for (let i = 0; i < count; i++) objects.push(new KubeObject(load<i32>(handles + 4 * i)));
  return objects;
}

/** A page of objects. `next` is the cursor of the next page, "" after the last one. */
@final
export class Page {
  constructor(
    readonly items: KubeObject[],
    readonly next: string,
  ) {}
}

export function pageAt(address: usize): Page {
  return new Page(objectsAt(address), textAt(address + 8));
}
