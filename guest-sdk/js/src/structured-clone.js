// `structuredClone`, which QuickJS lacks but Node has, so that code that passes its tests also runs in the plugin.

/**
 * Returns a deep copy, as the function of the HTML standard does: also of cycles, dates, maps, sets and binary data. Functions and symbols
 * throw a `DataCloneError`. Nothing can be transferred.
 */
export function structuredClone(value) {
  return copy(value, new Map());
}

globalThis.structuredClone ??= structuredClone;

function copy(value, copies) {
  if (typeof value === "function" || typeof value === "symbol") throw refusal(value);
  if (typeof value !== "object" || value === null) return value;
  if (copies.has(value)) return copies.get(value);
  const copied = emptyCopy(value, copies);
  copies.set(value, copied);
  if (value instanceof Map) {
    for (const [key, item] of value) copied.set(copy(key, copies), copy(item, copies));
  } else if (value instanceof Set) {
    for (const item of value) copied.add(copy(item, copies));
  } else if (value instanceof Error) {
    copyError(value, copied, copies);
  } else if (Array.isArray(value) || kindOf(value) === "Object") {
    // Getters are read, and the prototype is not kept.
    for (const name of Object.keys(value)) {
      Object.defineProperty(copied, name, { value: copy(value[name], copies), writable: true, enumerable: true, configurable: true });
    }
  }
  return copied;
}

/** Returns a copy without the members that may refer to other objects. */
function emptyCopy(value, copies) {
  if (Array.isArray(value)) return new Array(value.length);
  if (ArrayBuffer.isView(value)) return copyView(value, copies);
  if (value instanceof Error) return emptyError(value);
  switch (kindOf(value)) {
    case "ArrayBuffer":
      return value.slice(0);
    case "BigInt":
    case "Boolean":
    case "Number":
    case "String":
      return Object(value.valueOf());
    case "Date":
      return new Date(value.getTime());
    case "Map":
      return new Map();
    case "Object":
      return {};
    case "RegExp":
      return new RegExp(value.source, value.flags);
    case "Set":
      return new Set();
    default:
      throw refusal(value);
  }
}

function copyView(view, copies) {
  const buffer = copy(view.buffer, copies);
  const length = view instanceof DataView ? view.byteLength : view.length;
  return new view.constructor(buffer, view.byteOffset, length);
}

const ERRORS = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];

function emptyError({ name }) {
  const Type = ERRORS.find((known) => known.name === name) ?? Error;
  return new Type();
}

function copyError(error, copied, copies) {
  for (const name of ["message", "stack", "cause"]) {
    if (!Object.hasOwn(error, name)) continue;
    const value = name === "cause" ? copy(error.cause, copies) : String(error[name]);
    Object.defineProperty(copied, name, { value, writable: true, enumerable: false, configurable: true });
  }
}

function kindOf(value) {
  return Object.prototype.toString.call(value).slice(8, -1);
}

function refusal(value) {
  const error = new Error(`${String(value)} could not be cloned`);
  error.name = "DataCloneError";
  return error;
}
