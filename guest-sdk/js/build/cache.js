// Keeps the last component of a project, so that equal inputs make equal bytes.
//
// The engine's snapshot has random seeds in it, and componentize-qjs has no option for them. Without this, a host would load another version
// of a plugin after each build, although nothing of it has changed.

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";

/** The folder in a project for what tools may delete at any time. */
const FOLDER = "node_modules/.cache/pilothouse";

/** Returns the SHA-256 of texts and bytes, as hexadecimal text. */
export function digestOf(parts) {
  const hash = createHash("sha256");
  // The lengths keep ["ab", "c"] and ["a", "bc"] apart.
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part);
  return hash.digest("hex");
}

/** Returns the component that was made from inputs with this digest, or makes it. */
export async function cached(project, inputs, make) {
  const folder = path.join(project, FOLDER);
  const known = await find(folder, inputs);
  if (known !== undefined) return known;
  const component = await make();
  // A project that cannot be written to is built each time.
  await store(folder, inputs, component).catch(() => {});
  return component;
}

/** The name of a file has the digests of the inputs and of the content. */
async function find(folder, inputs) {
  const files = await readdir(folder).catch(() => []);
  const file = files.find((name) => name.startsWith(`${inputs}-`));
  if (file === undefined) return undefined;
  const component = await readFile(path.join(folder, file)).catch(() => Buffer.of());
  return file === nameOf(inputs, component) ? component : undefined;
}

function nameOf(inputs, component) {
  return `${inputs}-${digestOf([component])}.wasm`;
}

/** Stores the component in place of the one before. */
async function store(folder, inputs, component) {
  await mkdir(folder, { recursive: true });
  const name = nameOf(inputs, component);
  const partial = path.join(folder, `${process.pid}.partial`);
  await writeFile(partial, component);
  await rename(partial, path.join(folder, name));
  const others = (await readdir(folder)).filter((file) => file.endsWith(".wasm") && file !== name);
  await Promise.all(others.map((file) => rm(path.join(folder, file), { force: true })));
}
