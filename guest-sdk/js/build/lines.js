// Where a bundle's lines come from. The engine knows the lines of the bundle; the SDK tells errors by those of the author's files.

import { SourceMap } from "node:module";
import path from "node:path";

/**
 * A table for `src/stack.js`: the files, and for each line of the bundle its file's position in that list and its line there (`0:12`);
 * nothing for a line of the SDK or of nobody. One text, which costs an instance nothing before there is an error.
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
    // The first thing on a line that is not blank says where the line comes from.
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

/** The table as the statement that is appended to the bundle. */
export function lineStatement(table) {
  return `\nglobalThis[Symbol.for("pilothouse.lines")] = ${JSON.stringify(table)};\n`;
}
