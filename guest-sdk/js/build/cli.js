#!/usr/bin/env node
// `pilothouse-js PROJECT -o FILE.wasm`, which `pilothouse build` runs for a project in JavaScript.

import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";

import { build, BuildError } from "./build.js";

const USAGE = "usage: pilothouse-js [PROJECT] -o FILE.wasm";

try {
  const { positionals, values } = parseArgs({ allowPositionals: true, options: { output: { type: "string", short: "o" } } });
  if (values.output === undefined || positionals.length > 1) throw new BuildError(USAGE);
  const { component, warnings } = await build(positionals[0] ?? ".");
  for (const warning of warnings) process.stderr.write(`warning: ${warning}\n`);
  await writeFile(values.output, component);
} catch (error) {
  const isOurs = error instanceof BuildError || error.code?.startsWith("ERR_PARSE_ARGS");
  process.stderr.write(`${isOurs ? error.message : error.stack}\n`);
  process.exitCode = 1;
}
