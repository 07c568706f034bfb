// JSON pointers, JSON Merge Patch and JSON Patch, for the fake API server.

import { isObject, same } from "../json.js";

/** The text is not a JSON Patch. */
export class Malformed extends Error {}

/** An operation of a JSON Patch cannot be applied. */
export class Failed extends Error {}

/** Returns the value at a JSON pointer (RFC 6901), or undefined. */
export function at(value, pointer) {
  let found = value;
  for (const token of tokensOf(pointer)) {
    const isPresent = Array.isArray(found) ? /^\d+$/.test(token) : isObject(found) && Object.hasOwn(found, token);
    if (!isPresent) return undefined;
    found = found[token];
  }
  return found;
}

/** Sets the value at a JSON pointer in nested objects, which are created as needed. */
export function put(value, pointer, added) {
  const tokens = tokensOf(pointer);
  const last = tokens.pop();
  let inner = value;
  for (const token of tokens) {
    if (!isObject(inner[token])) inner[token] = {};
    inner = inner[token];
  }
  inner[last] = added;
}

/** Removes the value at a JSON pointer in nested objects, with the objects around it that become empty. */
export function drop(value, pointer) {
  const [first, ...rest] = tokensOf(pointer);
  if (!isObject(value) || !Object.hasOwn(value, first)) return;
  if (rest.length > 0) drop(value[first], pointerOf(rest));
  if (rest.length === 0 || (isObject(value[first]) && Object.keys(value[first]).length === 0)) delete value[first];
}

/** Returns the values by pointer. Lists and empty objects count as values. */
export function leaves(value, pointer = "") {
  if (!isObject(value) || Object.keys(value).length === 0) return new Map([[pointer, value]]);
  return new Map(Object.entries(value).flatMap(([name, inner]) => [...leaves(inner, `${pointer}${pointerOf([name])}`)]));
}

function tokensOf(pointer) {
  return pointer.split("/").slice(1).map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function pointerOf(tokens) {
  return tokens.map((token) => `/${token.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** Applies a JSON Merge Patch (RFC 7386). */
export function merge(target, patch) {
  if (!isObject(patch)) return patch;
  const merged = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = merge(merged[key], value);
  }
  return merged;
}

const ARGUMENTS = { add: "value", replace: "value", test: "value", remove: "path", move: "from", copy: "from" };

/** Applies a JSON Patch (RFC 6902). */
export function patched(value, operations) {
  if (!Array.isArray(operations)) throw new Malformed("a JSON patch is a list of operations");
  // The document is the member "" of `box`, so that the whole document can be replaced as well.
  const box = { "": structuredClone(value) };
  for (const operation of operations) perform(box, checked(operation));
  return box[""];
}

function checked(operation) {
  const argument = ARGUMENTS[operation?.op];
  if (argument === undefined) throw new Malformed(`unknown operation ${JSON.stringify(operation?.op)}`);
  for (const name of ["path", "from"]) {
    const pointer = operation[name] ?? "";
    if (typeof pointer !== "string" || !/^($|\/)/.test(pointer)) throw new Malformed(`${name} ${pointer} is not a JSON pointer`);
  }
  if (operation.path === undefined || operation[argument] === undefined) {
    throw new Malformed(`the operation ${operation.op} needs path and ${argument}`);
  }
  return operation;
}

function perform(box, { op, path, from = "", value }) {
  if (op === "test") {
    if (!same(at(box, `/${path}`), value)) throw new Failed(`the test of ${path} failed`);
    return;
  }
  const moved = op === "move" || op === "copy" ? at(box, `/${from}`) : value;
  if (moved === undefined && op !== "remove") throw new Failed(`nothing is at ${from}`);
  const removed = { move: from, remove: path, replace: path }[op];
  if (removed !== undefined) remove(box, removed);
  if (op !== "remove") add(box, path, structuredClone(moved));
}

function containerOf(box, path) {
  const tokens = ["", ...tokensOf(path)];
  const last = tokens.pop();
  const container = at(box, pointerOf(tokens));
  if (typeof container !== "object" || container === null) throw new Failed(`nothing is at ${path}`);
  return [container, last];
}

function add(box, path, value) {
  const [container, last] = containerOf(box, path);
  if (!Array.isArray(container)) {
    container[last] = value;
    return;
  }
  const position = last === "-" ? container.length : /^\d+$/.test(last) ? Number(last) : -1;
  if (position < 0 || position > container.length) throw new Failed(`${path} is not a position in the list`);
  container.splice(position, 0, value);
}

function remove(box, path) {
  const [container, last] = containerOf(box, path);
  if (at(container, pointerOf([last])) === undefined) throw new Failed(`nothing is at ${path}`);
  if (Array.isArray(container)) container.splice(Number(last), 1);
  else delete container[last];
}
