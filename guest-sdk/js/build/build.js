// From a project to a component: bundle it, look at what the plugin has, and put an engine around it.

import { existsSync } from "node:fs";
import { mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { lineStatement, lineTable } from "./lines.js";
import { exportsOf, importsOf, WORLD, writeWorld } from "./world.js";

const SDK = path.resolve(fileURLToPath(import.meta.url), "../..");

/** Where a plugin's code may begin, when package.json does not say. */
const ENTRIES = ["src/plugin.ts", "src/plugin.js", "src/index.ts", "src/index.js", "plugin.ts", "plugin.js", "index.ts", "index.js"];

/** What the author has to mend; its message is enough. */
export class BuildError extends Error {}

/** Builds the project in `folder`; answers the component's bytes, and the interfaces that it exports. */
export async function build(folder) {
  const project = await realpath(folder);
  const require = createRequire(path.join(project, "package.json"));
  const esbuild = await tool(require, "esbuild");
  const { componentize } = await tool(require, "componentize-qjs");
  const entry = await entryOf(project);
  const scratch = await realpath(await mkdtemp(path.join(tmpdir(), "pilothouse-js-")));
  try {
    const exported = exportsOf(await evaluate(esbuild, project, entry, scratch));
    const { jsSource, imported } = await bundle(esbuild, project, entry, exported);
    const wit = path.join(scratch, "wit");
    await writeWorld(wit, path.join(SDK, "wit"), { imported, exported });
    // The engine's async variant needs a host with asynchronous components.
    const { component } = await componentize({ witPath: wit, world: WORLD, jsSource, sync: true });
    return { component, exported };
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

/** The module whose default export is the plugin: `main` of package.json, or the first of the usual places. */
async function entryOf(project) {
  const { main } = JSON.parse(await readFile(path.join(project, "package.json"), "utf8"));
  const entry = main ?? ENTRIES.find((file) => existsSync(path.join(project, file)));
  if (entry === undefined) {
    throw new BuildError(`no ${ENTRIES.slice(0, 2).join(" or ")}: say where the plugin is with "main" in package.json`);
  }
  if (!existsSync(path.join(project, entry))) throw new BuildError(`${entry}, "main" of package.json, is not there`);
  return path.join(project, entry);
}

const COMMON = { bundle: true, format: "esm", target: "es2023", logLevel: "silent", write: false };

/** Runs the module in node, to see what the plugin has. It may not call the host before it is called itself. */
async function evaluate(esbuild, project, entry, scratch) {
  const options = { ...COMMON, absWorkingDir: project, entryPoints: [entry], platform: "node", banner: requireBanner() };
  const { outputFiles: [output] } = await run(esbuild, options, project);
  const file = path.join(scratch, "plugin.mjs");
  await writeFile(file, output.text);
  const module = await import(pathToFileURL(file).href).catch((error) => {
    throw new BuildError(`the module cannot be run: ${error.stack ?? error}`);
  });
  if (module.default?.[Symbol.for("pilothouse.plugin")] !== true) {
    const name = path.relative(project, entry);
    throw new BuildError(`${name}: the default export is no plugin; write: export default definePlugin({ … })`);
  }
  return module.default;
}

/** Bundled CommonJS packages call `require` for node's own modules. */
function requireBanner() {
  return { js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);' };
}

/** The whole program as one module: the plugin, the SDK, and the exports of its world. */
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
    // Paths in the map are relative to the output's folder; nothing is written there.
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

/** The entry and the plugin must mean the same SDK, through whatever link each finds it. */
function oneSdk() {
  return {
    name: "one-sdk",
    setup: ({ onResolve }) => onResolve({ filter: /^@pilothouse\/sdk$/ }, () => ({ path: path.join(SDK, "src/index.js") })),
  };
}

/** The contract's modules are the engine's. One that nothing uses is left out, so that the component does not import it. */
function contract() {
  return {
    name: "contract",
    setup: ({ onResolve }) => onResolve({ filter: /^pilothouse:/ }, ({ path }) => ({ path, external: true, sideEffects: false })),
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
