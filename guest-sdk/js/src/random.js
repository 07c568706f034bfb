// `Math.random` and `crypto` from the host's source of random numbers.
//
// QuickJS seeds `Math.random` when the plugin is built, so all instances of a plugin, in all hosts, would get the same numbers. Module code runs at
// build time, too, without a host. So the host's numbers are used from the first call on.

import { random } from "#host";

/** The number of bytes for `Math.random` that are requested at once. */
const BUFFER = 512;

/** The most bytes of one `getRandomValues`, as the standard says. */
const MOST = 65_536;

const ofEngine = Math.random;
let inInstance = false;
let buffer = new DataView(new ArrayBuffer(0));
let position = 0;

/** Lets random numbers come from the host. Exported functions call it. */
export function useRandomOfHost() {
  inInstance = true;
}

/** Returns a number from 0 up to, but not including, 1. */
export function randomNumber() {
  if (!inInstance) return ofEngine();
  if (position === buffer.byteLength) {
    buffer = new DataView(bytesOfHost(BUFFER).buffer);
    position = 0;
  }
  const bits = buffer.getBigUint64(position);
  position += 8;
  // The 53 bits of a number's mantissa.
  return Number(bits >> 11n) / 2 ** 53;
}

/** Fills an array of integers with random bytes, and returns it. */
export function getRandomValues(array) {
  if (!ArrayBuffer.isView(array) || array instanceof DataView || array instanceof Float32Array || array instanceof Float64Array) {
    throw new TypeError("crypto.getRandomValues: the argument must be an array of integers, such as a Uint8Array");
  }
  if (array.byteLength > MOST) {
    throw new RangeError(`crypto.getRandomValues: ${array.byteLength} bytes are more than ${MOST}`);
  }
  if (!inInstance) {
    throw new Error("crypto.getRandomValues: module code runs at build time, so its random numbers would be the same in every instance; call it later");
  }
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(bytesOfHost(array.byteLength));
  return array;
}

/** Returns a UUID of version 4. */
export function randomUUID() {
  const bytes = getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function bytesOfHost(count) {
  return Uint8Array.from(random.getRandomBytes(count));
}

/** Makes these functions global, as in browsers and Node. */
export function install(scope) {
  scope.Math.random = randomNumber;
  scope.crypto ??= Object.freeze({ getRandomValues, randomUUID });
}
