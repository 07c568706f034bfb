// The plugin's `structuredClone` has the results of Node's.

import assert from "node:assert/strict";
import { test } from "node:test";

import { structuredClone as copied } from "../src/structured-clone.js";

test("values are copied as Node copies them", () => {
  class Point {
    x = 1;
    get y() {
      return 2;
    }
  }
  const sparse = [1, , 3];
  for (const value of [
    undefined, null, true, 1.5, -0, NaN, 10n, "text", [], {}, sparse, new Date(5), /a+/gi, Object(7), new Point(),
    { spec: { replicas: 2, list: [{ a: null }, undefined] }, "": 0 },
    JSON.parse('{"__proto__": {"a": 1}}'),
    new Map([["a", { b: new Set([1, "2"]) }]]),
    new Uint8Array([1, 2, 3]).subarray(1),
    new DataView(new Uint8Array([1, 2, 3]).buffer, 1),
    new TypeError("wrong", { cause: { code: 3 } }),
  ]) {
    assert.deepStrictEqual(copied(value), structuredClone(value));
  }
});

test("a copy shares nothing with the original, and keeps its identities", () => {
  const original = { spec: { list: [1] }, bytes: new Uint8Array(2) };
  original.self = original;
  original.again = original.spec;
  const copy = copied(original);
  copy.spec.list.push(2);
  copy.bytes[0] = 9;
  assert.deepEqual([original.spec.list, [...original.bytes]], [[1], [0, 0]]);
  assert.ok(copy.self === copy && copy.again === copy.spec);
});

test("what cannot be copied is refused", () => {
  for (const value of [() => 1, Symbol("s"), { inner: () => 1 }, new WeakMap(), Promise.resolve()]) {
    assert.throws(() => copied(value), { name: "DataCloneError" });
    assert.throws(() => structuredClone(value), { name: "DataCloneError" });
  }
});
