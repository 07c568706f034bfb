// Random numbers come from the host, from the first call of an instance on.

import assert from "node:assert/strict";
import { test } from "node:test";

import { getRandomValues, install, randomNumber, randomUUID, useRandomOfHost } from "../src/random.js";

test("module code, which runs at build time, gets no random values for secrets", () => {
  assert.throws(() => getRandomValues(new Uint8Array(4)), { message: /module code runs at build time/ });
  const number = randomNumber();
  assert.ok(number >= 0 && number < 1);
});

test("numbers are spread over the whole range, and differ", () => {
  useRandomOfHost();
  const numbers = Array.from({ length: 1000 }, randomNumber);
  assert.ok(numbers.every((number) => number >= 0 && number < 1));
  assert.equal(new Set(numbers).size, numbers.length);
  for (let tenth = 0; tenth < 10; tenth++) {
    assert.ok(numbers.some((number) => Math.floor(number * 10) === tenth), `no number from ${tenth / 10} on`);
  }
});

test("arrays of integers are filled, and returned", () => {
  useRandomOfHost();
  const buffer = new Uint8Array(64);
  const part = buffer.subarray(16, 48);
  assert.equal(getRandomValues(part), part);
  assert.ok(part.some((byte) => byte !== 0));
  assert.ok(buffer.subarray(0, 16).every((byte) => byte === 0) && buffer.subarray(48).every((byte) => byte === 0));
  assert.ok(getRandomValues(new BigUint64Array(8)).some((word) => word > 0xffff_ffffn));
});

test("what cannot be filled is refused", () => {
  useRandomOfHost();
  for (const wrong of [undefined, [1], "text", new ArrayBuffer(8), new Float64Array(2), new DataView(new ArrayBuffer(8))]) {
    assert.throws(() => getRandomValues(wrong), TypeError);
  }
  assert.throws(() => getRandomValues(new Uint8Array(65_537)), RangeError);
});

test("UUIDs have version 4", () => {
  useRandomOfHost();
  const uuids = Array.from({ length: 50 }, randomUUID);
  assert.ok(uuids.every((uuid) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuid)));
  assert.equal(new Set(uuids).size, uuids.length);
});

test("a scope that has crypto keeps it", () => {
  const own = { crypto: {}, Math: {} };
  install(own);
  assert.deepEqual(own.crypto, {});
  const bare = { Math: {} };
  install(bare);
  assert.deepEqual([Object.keys(bare.crypto), bare.Math.random], [["getRandomValues", "randomUUID"], randomNumber]);
});
