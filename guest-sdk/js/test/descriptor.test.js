// The checks of a descriptor, by the fake host and by the build.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { definePlugin } from "@pilothouse/sdk";
import { fakeHost } from "@pilothouse/sdk/testing";

import { MEMBERS } from "../src/testing/descriptor.js";

const MAPS = { name: "maps", apiVersion: "v1", kind: "ConfigMap", trigger: "self" };
const SCHEMA = new URL("../../../docs/plugin.schema.json", import.meta.url);

function described(members) {
  return definePlugin({ describe: { name: "p", version: "1", watches: [MAPS], ...members }, reconcile() {} });
}

test("a member that the host does not know is refused with the name of its watch", () => {
  for (const [members, expected] of [
    [{ watches: [MAPS, { ...MAPS, name: "pods", lableSelector: "a=b" }] }, /^watches\[1\] "pods" of the descriptor: unknown field lableSelector; .* labelSelector,/],
    [{ watches: [{ ...MAPS, indexes: [{ name: "byApp", lable: "app" }] }] }, /^indexes\[0\] "byApp" of watches\[0\] "maps" of the descriptor: unknown field lable;/],
    [{ watches: [{ name: "maps", kind: "ConfigMap" }] }, /^watches\[0\] "maps" of the descriptor: apiVersion must be a string, not undefined/],
    [{ watches: { maps: MAPS } }, /^watches must be an array/],
    [{ watches: ["maps"] }, /^watches\[0\] of the descriptor must be an object, not "maps"/],
    [{ writes: [{ apiGroup: "" }] }, /^writes\[0\] of the descriptor: unknown field apiGroup;/],
    [{ limits: { memry: "1Mi" } }, /^limits of the descriptor: unknown field memry;/],
    [{ watch: [] }, /^the descriptor: unknown field watch;/],
  ]) {
    assert.throws(() => fakeHost(described(members)), { name: "TypeError", message: expected });
  }
  fakeHost(described({ limits: { memory: "32Mi" }, writes: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }] }));
});

test("the members are those of the host's schema", { skip: !existsSync(SCHEMA) }, () => {
  const schema = JSON.parse(readFileSync(SCHEMA, "utf8"));
  for (const [name, members] of Object.entries(MEMBERS)) {
    const { properties } = name === "" ? schema : schema.$defs[name];
    assert.deepEqual(members, Object.keys(properties).sort(), name);
  }
});
