// Type-checks a project in TypeScript with the project's own compiler. esbuild removes types and does not check them.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";

const TYPESCRIPT = /\.[cm]?tsx?$/;

/** The options for a project without tsconfig.json. Whether the check is strict is left to the compiler's default. */
const OPTIONS = {
  module: "esnext",
  moduleResolution: "bundler",
  target: "es2023",
  // `dom` declares `console`, and also functions that the engine lacks.
  lib: ["es2023", "esnext.disposable", "dom"],
  types: [],
  allowImportingTsExtensions: true,
  skipLibCheck: true,
  noEmit: true,
};

/** How much of the compiler's output is kept, in bytes. */
const MAX_OUTPUT = 16 << 20;

/**
 * Checks the types of a project with its tsconfig.json, or with default options. Returns `{ errors, warning }`: the compiler's messages, "" if
 * there are none, and a warning if types cannot be checked.
 *
 * @param require finds the project's packages
 * @param project the project's folder
 * @param inputs the bundled files, relative to the project
 * @param scratch a folder for temporary files
 */
export async function checkTypes(require, project, inputs, scratch) {
  const files = inputs.filter((file) => TYPESCRIPT.test(file) && !file.split(/[\\/]/).includes("node_modules"));
  if (files.length === 0) return { errors: "" };
  const compiler = await compilerOf(require);
  if (compiler === undefined) {
    const warning = "the types are not checked, because the project has no TypeScript compiler; run: npm install --save-dev --save-exact typescript";
    return { errors: "", warning };
  }
  let config = path.join(project, "tsconfig.json");
  if (!existsSync(config)) {
    config = path.join(scratch, "tsconfig.json");
    const absolute = files.map((file) => path.resolve(project, file));
    await writeFile(config, JSON.stringify({ compilerOptions: OPTIONS, files: absolute }));
  }
  return { errors: await run(compiler, ["--noEmit", "--pretty", "false", "-p", config], project) };
}

/** Returns the path of the compiler's program, or undefined if the project does not have one. */
async function compilerOf(require) {
  let manifest;
  try {
    manifest = require.resolve("typescript/package.json");
  } catch {
    return undefined;
  }
  const { bin } = JSON.parse(await readFile(manifest, "utf8"));
  return path.resolve(path.dirname(manifest), bin.tsc);
}

/** Runs the compiler in the project, so that it names files relative to it. Returns its messages if it fails. */
function run(compiler, args, project) {
  return new Promise((resolve) => {
    execFile(process.execPath, [compiler, ...args], { cwd: project, maxBuffer: MAX_OUTPUT }, (error, stdout, stderr) => {
      if (error === null) return resolve("");
      resolve(`${stdout}${stderr}`.trimEnd() || `the TypeScript compiler failed: ${error.message}`);
    });
  });
}
