// The WIT world of a plugin: the imports that its code uses, and its exports.

import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

/** The exported interface for each member of a plugin. */
export const EXPORTS = { reconcile: "reconcile", observe: "observe", indexes: "index" };

/** The name of the world that `writeWorld` writes. */
export const WORLD = "guest";

/** Returns the interfaces that a plugin exports. */
export function exportsOf(plugin) {
  const members = Object.keys(EXPORTS).filter((member) => plugin[member] !== undefined);
  return ["plugin", ...members.map((member) => EXPORTS[member])];
}

/** The prefix of the contract's modules in JavaScript. */
const INTERFACE = /^pilothouse:controller\/([a-z-]+)@/;

/** Returns the interfaces that a bundle imports, given the paths of its imports. */
export function importsOf(paths) {
  return paths.map((path) => INTERFACE.exec(path)?.[1]).filter((name) => name !== undefined);
}

/** The contract of WASI for random numbers, as far as plugins use it. */
const RANDOM = `package wasi:random@0.2.0;

interface random {
  get-random-bytes: func(len: u64) -> list<u8>;
}
`;

/** Writes a WIT package into `folder`, beside a copy of the contract in `wit`. */
export async function writeWorld(folder, wit, { imported, exported }) {
  const contract = path.join(folder, "deps", "controller");
  await mkdir(contract, { recursive: true });
  const files = (await readdir(wit)).filter((file) => file.endsWith(".wit"));
  await Promise.all(files.map((file) => cp(path.join(wit, file), path.join(contract, file), { dereference: true })));
  const random = path.join(folder, "deps", "random");
  await mkdir(random);
  await writeFile(path.join(random, "random.wit"), RANDOM);
  const version = await contractVersion(wit, files);
  const lines = [
    "package pilothouse:guest;",
    `world ${WORLD} {`,
    "  import wasi:random/random@0.2.0;",
    ...imported.map((name) => `  import pilothouse:controller/${name}@${version};`),
    ...exported.map((name) => `  export pilothouse:controller/${name}@${version};`),
    "}",
    "",
  ];
  await writeFile(path.join(folder, "guest.wit"), lines.join("\n"));
}

async function contractVersion(wit, files) {
  for (const file of files) {
    const found = /^package pilothouse:controller@([^;]+);/m.exec(await readFile(path.join(wit, file), "utf8"));
    if (found !== null) return found[1];
  }
  throw new Error(`${wit}: no file says \`package pilothouse:controller@VERSION;\``);
}
