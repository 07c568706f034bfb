/** Tests of the helper. They need the binary in $PILOTHOUSE_BINARY or $PATH. */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";

import { start } from "./testserver.js";

const CONFIG_MAPS = "/api/v1/namespaces/default/configmaps";

async function started(t) {
  const server = await start({ flags: ["--controllers", "none"] });
  t.after(() => server.stop());
  return server;
}

const create = (server, name) => server.call("POST", CONFIG_MAPS, { metadata: { name } });

const names = async (server) => JSON.parse(await server.call("GET", CONFIG_MAPS)).items.map((item) => item.metadata.name);

test("faults apply until they are cleared", async (t) => {
  const server = await started(t);
  await server.inject({ verb: "create", resource: "configmaps", code: 409, count: 5 });
  await assert.rejects(create(server, "a"), /409/);
  await server.clearFaults();
  await create(server, "a");
  await assert.rejects(server.inject({ cuont: 5 }), /unknown field/);
});

test("snapshots are restored", async (t) => {
  const server = await started(t);
  await server.takeSnapshot("empty");
  await create(server, "a");
  assert.deepEqual(await names(server), ["a"]);
  await server.restoreSnapshot("empty");
  assert.deepEqual(await names(server), []);
});

test("stop removes the files", async (t) => {
  const server = await started(t);
  assert.ok(existsSync(server.kubeconfig));
  await server.stop();
  await server.stop();
  assert.ok(!existsSync(server.kubeconfig));
});

test("start reports what the server says", async () => {
  await assert.rejects(start({ flags: ["--controllers", "unknown"] }), /there is no controller/);
  await assert.rejects(start({ binary: "/does/not/exist" }), /ENOENT/);
});
