// The source positions of a bundle's lines. The engine reports lines of the bundle; the SDK reports errors with lines of the plugin's files.

import { SourceMap } from "node:module";
import path from "node:path";

/**
 * Returns a table for `src/stack.js`: the files, and for each line of the bundle the index of its file and the line in it (`0:12`), or nothing
 * for a line of the SDK or a generated line. It is one string, which costs an instance nothing until there is an error.
 *
 * @param bundle the text
 * @param map its source map, parsed
 * @param mapFolder the folder that the map's sources are relative to
 * @param project the folder that files are named relative to
 * @param sdk the SDK's folder
 */
export function lineTable(bundle, map, mapFolder, project, sdk) {
  const sources = new SourceMap(map);
  const files = [];
  const places = bundle.split("\n").map((text, line) => {
    // The first segment of a line that is not blank determines where the line comes from.
    const entry = sources.findEntry(line, text.search(/\S|$/) + 1);
    if (entry.originalSource === undefined || entry.generatedLine !== line) return "";
    const file = path.resolve(mapFolder, entry.originalSource);
    if (file.startsWith(sdk + path.sep)) return "";
    const name = path.relative(project, file);
    if (!files.includes(name)) files.push(name);
    return `${files.indexOf(name)}:${entry.originalLine + 1}`;
  });
  return { files, lines: places.join(",") };
}

/** Returns the statement that defines the table; the build appends it to the bundle. */
export function lineStatement(table) {
  return `\nglobalThis[Symbol.for("pilothouse.lines")] = ${JSON.stringify(table)};\n`;
}
