// Errors as one line of text: what went wrong and where, in the author's own files.

/** A bundle's lines, and where they come from; the build appends it (`build/lines.js`). */
const LINES = Symbol.for("pilothouse.lines");

const MOST_FRAMES = 8;

/** `TypeError: x is not a function, in repair (src/plugin.js:20) < reconcile (src/plugin.js:12)` */
export function errorText(error) {
  if (!(error instanceof Error)) return `${error}`;
  const frames = framesOf(error);
  const place = frames.length === 0 ? "" : `, in ${frames.join(" < ")}`;
  const cause = error.cause === undefined ? "" : `; caused by ${errorText(error.cause)}`;
  return `${error}${place}${cause}`;
}

/** The frames of the author's code, innermost first. */
function framesOf(error) {
  const frames = [];
  for (const line of String(error.stack ?? "").split("\n")) {
    const found = /^\s*at (?:(.*?) \()?([^()\s]*):(\d+):(\d+)\)?$/.exec(line);
    const place = found === null ? undefined : placeOf(found[2], Number(found[3]));
    if (place === undefined) continue;
    frames.push(found[1] && found[1] !== "<anonymous>" ? `${found[1]} (${place})` : place);
    if (frames.length === MOST_FRAMES) break;
  }
  return frames;
}

/** Undefined for a line of the SDK. */
function placeOf(file, line) {
  const table = globalThis[LINES];
  if (table === undefined) return `${file}:${line}`;
  const packed = table.lines.split(",")[line - 1];
  if (!packed) return undefined;
  const [position, itsLine] = packed.split(":");
  return `${table.files[position]}:${itsLine}`;
}

/** The same error with the author's places in its stack, to be thrown on: what ends the instance is logged with it. */
export function withPlaces(error) {
  if (error instanceof Error) {
    const stack = framesOf(error).map((frame) => `    at ${frame}\n`).join("");
    Object.defineProperty(error, "stack", { value: stack, configurable: true, writable: true });
  }
  return error;
}
