// Errors as one line of text, with the locations in the plugin's own files.

/** The source positions of the bundle's lines, which the build appends (`build/lines.js`). */
const LINES = Symbol.for("pilothouse.lines");

const MOST_FRAMES = 8;

/** Returns a text such as `TypeError: x is not a function, in repair (src/plugin.js:20) < reconcile (src/plugin.js:12)`. */
export function errorText(error) {
  if (!(error instanceof Error)) return `${error}`;
  const frames = framesOf(error);
  const location = frames.length === 0 ? "" : `, in ${frames.join(" < ")}`;
  const cause = error.cause === undefined ? "" : `; caused by ${errorText(error.cause)}`;
  return `${error}${location}${cause}`;
}

/** Returns the frames of the plugin's own code, innermost first. */
function framesOf(error) {
  const frames = [];
  for (const line of String(error.stack ?? "").split("\n")) {
    const found = /^\s*at (?:(.*?) \()?([^()\s]*):(\d+):(\d+)\)?$/.exec(line);
    const position = found === null ? undefined : positionOf(found[2], Number(found[3]));
    if (position === undefined) continue;
    frames.push(found[1] && found[1] !== "<anonymous>" ? `${found[1]} (${position})` : position);
    if (frames.length === MOST_FRAMES) break;
  }
  return frames;
}

/** Returns the source position of a bundle's line; undefined for a line of the SDK. */
function positionOf(file, line) {
  const table = globalThis[LINES];
  if (table === undefined) return `${file}:${line}`;
  const packed = table.lines.split(",")[line - 1];
  if (!packed) return undefined;
  const [position, itsLine] = packed.split(":");
  return `${table.files[position]}:${itsLine}`;
}

/** Returns the error with the plugin's own positions in its stack, for rethrowing: an error that ends the instance is logged with its stack. */
export function withPositions(error) {
  if (error instanceof Error) {
    const stack = framesOf(error).map((frame) => `    at ${frame}\n`).join("");
    Object.defineProperty(error, "stack", { value: stack, configurable: true, writable: true });
  }
  return error;
}
