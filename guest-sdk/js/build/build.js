// Builds a component from a project: bundles it, determines the plugin's exports, and adds the engine.

import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { checkDescriptor } from "../src/testing/descriptor.js";
import { cached, digestOf } from "./cache.js";
import { lineStatement, lineTable } from "./lines.js";
import { checkTypes } from "./types.js";
import { exportsOf, importsOf, WORLD, writeWorld } from "./world.js";

const SDK = path.resolve(fileURLToPath(import.meta.url), "../..");

/** The default entry files, when package.json has no `main`. */
const ENTRIES = ["src/plugin.ts", "src/plugin.js", "src/index.ts", "src/index.js", "plugin.ts", "plugin.js", "index.ts", "index.js"];

/** An error in the project, reported by its message only. */
export class BuildError extends Error {}

/** Builds the project in `folder`. Returns the component's bytes, the interfaces that it exports, and warnings. */
export async function build(folder) {
  const project = await realpath(folder);
  const require = createRequire(path.join(project, "package.json"));
  const esbuild = await tool(require, "esbuild");
  const { componentize } = await tool(require, "componentize-qjs");
  const entry = await entryOf(project);
  const scratch = await realpath(await mkdtemp(path.join(tmpdir(), "pilothouse-js-")));
  try {
    const { plugin, warnings } = await evaluate(esbuild, require, project, entry, scratch);
    const exported = exportsOf(plugin);
    const { jsSource, imported } = await bundle(esbuild, project, entry, exported);
    const wit = path.join(scratch, "wit");
    await writeWorld(wit, path.join(SDK, "wit"), { imported, exported });
    const inputs = digestOf([jsSource, await filesIn(wit), await versionOf(require, "componentize-qjs")]);
    const component = await cached(project, inputs, async () => {
      // The engine's async variant requires a host that supports asynchronous components.
      const { component } = await componentize({ witPath: wit, world: WORLD, jsSource, sync: true });
      return component;
    });
    return { component, exported, warnings };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function tool(require, name) {
  try {
    const found = await import(pathToFileURL(require.resolve(name)).href);
    return found.default ?? found;
  } catch (error) {
    throw new BuildError(`${name} cannot be loaded: ${error.message}\nrun: npm install --save-dev --save-exact ${name}`);
  }
}

/** Returns the manifest of an installed package, as text with its version. */
function versionOf(require, name) {
  return readFile(path.join(path.dirname(require.resolve(name)), "package.json"), "utf8");
}

/** Returns the names and texts of the files in a folder as one text. */
async function filesIn(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));
  const texts = files.sort().map(async (file) => [path.relative(folder, file), await readFile(file, "utf8")]);
  return JSON.stringify(await Promise.all(texts));
}

/** Returns the module whose default export is the plugin: `main` of package.json, or the first default entry that exists. */
async function entryOf(project) {
  const { main } = JSON.parse(await readFile(path.join(project, "package.json"), "utf8"));
  const entry = main ?? ENTRIES.find((file) => existsSync(path.join(project, file)));
  if (entry === undefined) {
    throw new BuildError(`no ${ENTRIES.slice(0, 2).join(" or ")}; set "main" in package.json to the plugin's module`);
  }
  if (!existsSync(path.join(project, entry))) throw new BuildError(`${entry}, "main" of package.json, does not exist`);
  return path.join(project, entry);
}

const COMMON = { bundle: true, format: "esm", target: "es2023", logLevel: "silent", write: false };

/** Checks the types of the module, and runs it in Node to determine the plugin's exports. Module code must not call the host. */
async function evaluate(esbuild, require, project, entry, scratch) {
  const file = path.join(scratch, "plugin.mjs");
  const options = {
    ...COMMON,
    absWorkingDir: project,
    entryPoints: [entry],
    platform: "node",
    banner: requireBanner(),
    outfile: file,
    sourcemap: "inline",
    metafile: true,
  };
  const { outputFiles: [output], metafile } = await run(esbuild, options, project);
  const { errors, warning } = await checkTypes(require, project, Object.keys(metafile.inputs), scratch);
  if (errors !== "") throw new BuildError(`${errors}\nin ${project}`);
  await writeFile(file, output.text);
  // Stack traces then name the project's files instead of the temporary one.
  process.setSourceMapsEnabled(true);
  const module = await import(pathToFileURL(file).href).catch((error) => {
    throw new BuildError(`running the module failed: ${error.stack ?? error}`);
  });
  if (module.default?.[Symbol.for("pilothouse.plugin")] !== true) {
    const name = path.relative(project, entry);
    throw new BuildError(`${name}: the default export is not a plugin; write: export default definePlugin({ … })`);
  }
  checkStatic(module.default.describe);
  return { plugin: module.default, warnings: warning === undefined ? [] : [warning] };
}

/** Checks a descriptor that does not depend on the sidecar's config, by the names that the author wrote. The host checks every descriptor. */
function checkStatic(describe) {
  if (typeof describe === "function") return;
  try {
    // As JSON, which has no undefined members.
    checkDescriptor(JSON.parse(JSON.stringify(describe)));
  } catch (error) {
    throw new BuildError(error.message);
  }
}

/** Defines `require`, which bundled CommonJS packages call for Node's own modules. */
function requireBanner() {
  return { js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);' };
}

/** Bundles the whole program into one module: the plugin, the SDK, and the exports of its world. */
async function bundle(esbuild, project, entry, exported) {
  const name = (text) => JSON.stringify(text);
  const contents = [
    `import { component } from ${name(path.join(SDK, "src/component.js"))};`,
    `import definition from ${name(entry)};`,
    "const exported = component(definition);",
    ...exported.map((member) => `export const ${member} = exported.${member};`),
  ].join("\n");
  const options = {
    ...COMMON,
    absWorkingDir: project,
    stdin: { contents, resolveDir: project, sourcefile: "pilothouse-entry.js" },
    // Paths in the source map are relative to the output's folder; nothing is written there.
    outfile: path.join(project, "plugin.bundle.js"),
    sourcemap: "external",
    sourcesContent: false,
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["pilothouse"],
    metafile: true,
    plugins: [oneSdk(), contract()],
  };
  const { outputFiles: [map, output], metafile } = await run(esbuild, options, project);
  const table = lineTable(output.text, JSON.parse(map.text), project, project, SDK);
  const imports = Object.values(metafile.outputs).flatMap((file) => file.imports.map((used) => used.path));
  return { jsSource: output.text + lineStatement(table), imported: importsOf(imports) };
}

/** Resolves the SDK to one module, even when the entry and the plugin find it through different symbolic links. */
function oneSdk() {
  return {
    name: "one-sdk",
    setup: ({ onResolve }) => onResolve({ filter: /^@pilothouse\/sdk$/ }, () => ({ path: path.join(SDK, "src/index.js") })),
  };
}

/** Leaves the modules of the contract and of WASI to the engine. Unused ones are dropped, so that the component does not import them. */
function contract() {
  return {
    name: "contract",
    setup: ({ onResolve }) => onResolve({ filter: /^(pilothouse|wasi):/ }, ({ path }) => ({ path, external: true, sideEffects: false })),
  };
}

async function run(esbuild, options, project) {
  try {
    return await esbuild.build(options);
  } catch (error) {
    if (!Array.isArray(error.errors)) throw error;
    const messages = await esbuild.formatMessages(error.errors, { kind: "error", color: false });
    throw new BuildError(`${messages.join("").trimEnd()}\nin ${project}`);
  }
}
