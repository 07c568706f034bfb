// The plugin's log. The host adds plugin, watch, key and attempt to every line.

import { log as wit } from "#host";

/** Writes a debug line, with fields: `log.debug("scaling", { replicas: 3 })`. */
export function debug(message, fields) {
  write("debug", message, fields);
}

/** Writes an info line. */
export function info(message, fields) {
  write("info", message, fields);
}

/** Writes a warning. */
export function warn(message, fields) {
  write("warn", message, fields);
}

/** Writes an error line. */
export function error(message, fields) {
  write("error", message, fields);
}

function write(level, message, fields = {}) {
  wit.log(level, text(message), Object.entries(fields).map(([key, value]) => ({ key: text(key), value: text(value) })));
}

/** Converts anything to valid text. A lone surrogate cannot be encoded as UTF-8, and logging must not fail. */
export function text(value) {
  let found;
  if (typeof value === "string") found = value;
  else if (value instanceof Error) found = value.stack ? `${value}\n${value.stack}` : String(value);
  else if (typeof value === "object" && value !== null && value.toString === Object.prototype.toString) found = json(value);
  else if (Array.isArray(value)) found = json(value);
  else found = String(value);
  return found.toWellFormed();
}

function json(value) {
  try {
    return JSON.stringify(value);
  } catch {
    return String(value);
  }
}
