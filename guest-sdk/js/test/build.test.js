// The build tool, on small projects.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { build, BuildError } from "../build/build.js";
import { lineTable } from "../build/lines.js";
import { exportsOf } from "../build/world.js";

const SDK = fileURLToPath(new URL("..", import.meta.url));
const folders = [];
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

/** A project that finds the SDK and the tools where npm would have put them. */
async function project(files) {
  const folder = await mkdtemp(path.join(tmpdir(), "pilothouse-js-test-"));
  folders.push(folder);
  await mkdir(path.join(folder, "node_modules/@pilothouse"), { recursive: true });
  await symlink(SDK, path.join(folder, "node_modules/@pilothouse/sdk"));
  for (const tool of ["esbuild", "componentize-qjs"]) {
    await symlink(path.join(SDK, "test/node_modules", tool), path.join(folder, "node_modules", tool));
  }
  for (const [name, text] of Object.entries({ "package.json": '{"name":"p","type":"module"}', ...files })) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), text);
  }
  return folder;
}

const PLUGIN = 'import { definePlugin } from "@pilothouse/sdk"; const describe = { name: "p", version: "1" };\n';

test("a component exports only what the plugin has", async () => {
  const files = { "src/words.ts": "export const words = (text: string): string[] => text.split(' ');" };
  const source = `${PLUGIN}import { words } from "./words.ts";
    export default definePlugin({ describe, reconcile() {}, indexes: { byWord: (object) => words(object.text("/data/words") ?? "") } });`;
  const { component, exported } = await build(await project({ ...files, "src/plugin.ts": source }));
  assert.deepEqual(exported, ["plugin", "reconcile", "index"]);
  assert.deepEqual([...component.subarray(0, 4)], [0, 0x61, 0x73, 0x6d]);
  assert.ok(component.includes("pilothouse:controller/index@") && !component.includes("pilothouse:controller/observe@"));
  assert.ok(component.includes("pilothouse:controller/cache@") && !component.includes("pilothouse:controller/metrics@"), "imports");
});

test("two builds of the same sources are equal, and a change of a source or of the kept file makes another component", async () => {
  const source = (version) => `import { definePlugin } from "@pilothouse/sdk";
    export default definePlugin({ describe: { name: "p", version: "${version}" }, reconcile() {} });`;
  const folder = await project({ "src/plugin.js": source("1"), "test/plugin.test.js": "" });
  const kept = path.join(folder, "node_modules/.cache/pilothouse");
  const first = (await build(folder)).component;
  await writeFile(path.join(folder, "test/plugin.test.js"), "// Saved.");
  assert.ok(first.equals((await build(folder)).component), "no source of the plugin has changed");
  await writeFile(path.join(folder, "src/plugin.js"), source("2"));
  const second = (await build(folder)).component;
  assert.ok(second.includes('version: "2"') && !first.includes('version: "2"'));
  const files = await readdir(kept);
  assert.equal(files.length, 1, "only the last component is kept");
  await writeFile(path.join(kept, files[0]), "damaged");
  assert.deepEqual([...(await build(folder)).component.subarray(0, 4)], [0, 0x61, 0x73, 0x6d]);
});

test("module code may use structuredClone, which the engine lacks", async () => {
  const source = `${PLUGIN}const copy = structuredClone({ list: [1] });
    if (copy.list.length !== 1) throw new Error("no copy");
    export default definePlugin({ describe, reconcile() {} });`;
  // The engine runs the module while it is built.
  const { exported } = await build(await project({ "src/plugin.js": source }));
  assert.deepEqual(exported, ["plugin", "reconcile"]);
});

test("the error about a descriptor names the watch and the field", async () => {
  const source = `import { definePlugin } from "@pilothouse/sdk";
    const watches = [{ name: "maps", apiVersion: "v1", kind: "ConfigMap", lableSelector: "a=b" }];
    export default definePlugin({ describe: { name: "p", version: "1", watches }, reconcile() {} });`;
  const error = { name: "Error", message: /^watches\[0\] "maps" of the descriptor: unknown field lableSelector;/ };
  await assert.rejects(build(await project({ "src/plugin.js": source })), error);
});

test("the members of a plugin determine its exports", () => {
  assert.deepEqual(exportsOf({ observe() {} }), ["plugin", "observe"]);
  assert.deepEqual(exportsOf({ reconcile() {}, observe() {}, indexes: {} }), ["plugin", "reconcile", "observe", "index"]);
});

test("an error in the project is reported with its location", async () => {
  for (const [files, text] of [
    [{ "src/plugin.js": "const a = 1;\nexport default {;" }, /Expected identifier but found ";"\n\n\s+src\/plugin\.js:2:16:/],
    [{ "src/plugin.js": 'import x from "./nowhere.js";' }, /Could not resolve "\.\/nowhere\.js"/],
    [{ "src/plugin.js": "export default { reconcile() {} };" }, /src\/plugin\.js: the default export is not a plugin/],
    [{ "src/plugin.js": `${PLUGIN}export default definePlugin({ describe, reconcil() {} });` }, /unknown member reconcil/],
    [{ "src/other.js": "" }, /no src\/plugin\.ts or src\/plugin\.js; set "main" in package\.json/],
    [{ "package.json": '{"main":"gone.js"}' }, /gone\.js, "main" of package\.json, does not exist/],
  ]) {
    await assert.rejects(build(await project(files)), (error) => error instanceof BuildError && text.test(error.message), String(text));
  }
});

test("an error of the module's own code is reported with the file of the project", async () => {
  const folder = await project({ "src/plugin.ts": `${PLUGIN}const none: { a?: { b: string } } = {};\nexport const text = none.a!.b;` });
  await assert.rejects(build(folder), (error) => {
    assert.ok(error instanceof BuildError);
    assert.match(error.message, /running the module failed: [^]*src\/plugin\.ts:3/);
    assert.doesNotMatch(error.message, /plugin\.mjs/);
    return true;
  });
});

/** A project in TypeScript with a type error, and the given files. */
function mistyped(files = {}) {
  const source = `${PLUGIN}export const count: number = "one";\nexport default definePlugin({ describe, reconcile() {} });\n`;
  return project({ "src/plugin.ts": source, ...files });
}

/** Installs the SDK's TypeScript compiler into a project. */
async function withCompiler(folder) {
  await symlink(path.join(SDK, "test/node_modules/typescript"), path.join(folder, "node_modules/typescript"));
  return folder;
}

test("a type error fails the build with its location", async () => {
  for (const files of [{}, { "tsconfig.json": '{"compilerOptions":{"strict":true,"skipLibCheck":true},"include":["src"]}' }]) {
    const folder = await withCompiler(await mistyped(files));
    await assert.rejects(build(folder), (error) => {
      assert.ok(error instanceof BuildError, error.stack);
      assert.match(error.message, /^src\/plugin\.ts\(2,14\): error TS2322: [^]*\nin \//);
      return true;
    });
  }
});

test("types that are right are checked without a warning, with the project's options", async () => {
  const right = `${PLUGIN}export default definePlugin({ describe, reconcile() { console.info("ready"); } });\n`;
  const { warnings } = await build(await withCompiler(await project({ "src/plugin.ts": right })));
  assert.deepEqual(warnings, []);
  // The project decides: without strict checks, a parameter may have no type.
  const loose = `${PLUGIN}export const same = (value) => value;\nexport default definePlugin({ describe, reconcile() {} });\n`;
  const options = { strict: false, skipLibCheck: true, module: "esnext", moduleResolution: "bundler", types: [] };
  const config = JSON.stringify({ compilerOptions: options, include: ["src"] });
  await build(await withCompiler(await project({ "src/plugin.ts": loose, "tsconfig.json": config })));
});

test("a project in TypeScript without a compiler is built with a warning, and one in JavaScript without", async () => {
  const { warnings } = await build(await mistyped());
  assert.equal(warnings.length, 1);
  assert.match(warnings[0], /types are not checked[^]*npm install --save-dev --save-exact typescript/);
  const plain = `${PLUGIN}export default definePlugin({ describe, reconcile() {} });`;
  assert.deepEqual((await build(await project({ "src/plugin.js": plain }))).warnings, []);
});

test("a missing tool is reported with the command that installs it", async () => {
  const folder = await project({ "src/plugin.js": "" });
  await rm(path.join(folder, "node_modules/esbuild"));
  await assert.rejects(build(folder), /esbuild cannot be loaded[^]*npm install --save-dev --save-exact esbuild/);
});

test("the line table has the plugin's lines and omits the SDK's", () => {
  const map = {
    version: 3,
    sources: ["src/plugin.ts", "../sdk/src/log.js"],
    names: [],
    // Line 1: plugin.ts 1; line 2: plugin.ts 3, indented; line 3: log.js 1; line 4: nothing.
    mappings: "AAAA;EAEA;ACFA",
  };
  const table = lineTable("a\n  b\nc\n}", map, "/project", "/project", "/sdk");
  assert.deepEqual(table, { files: ["src/plugin.ts"], lines: "0:1,0:3,," });
});
