// Objects, handles and the cache.

import assert from "node:assert/strict";
import { test } from "node:test";

import { definePlugin, ObjectKey } from "@pilothouse/sdk";
import { fakeHost } from "@pilothouse/sdk/testing";

import { configMap, CONFIG_MAPS, reconciler, WEB } from "./objects.js";

/** Runs `work(ctx)` in a reconcile over `objects`, and returns its result. */
function reading(objects, work, more) {
  let answer;
  const host = fakeHost(reconciler((ctx) => { answer = work(ctx); }, more), { objects });
  const result = host.reconcile("maps", WEB);
  assert.equal(result.outcome, "done", result.message);
  return { answer, host };
}

test("an object is read by parts, with undefined for missing values", () => {
  const owner = { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "u1", controller: true };
  const object = configMap("web", {
    data: { a: 'x "y"', list: [1, { b: null }] },
    labels: { app: "web" },
    annotations: { note: "n" },
    generation: 4,
    ownerReferences: [owner],
  });
  reading([object], (ctx) => {
    const web = ctx.cache("maps").get(WEB);
    assert.equal(`${web}`, "v1 ConfigMap default/web");
    assert.deepEqual([web.apiVersion, web.kind, web.generation, web.resourceVersion !== ""], ["v1", "ConfigMap", 4, true]);
    assert.deepEqual([web.labels, web.label("app"), web.label("no"), web.annotation("note")], [{ app: "web" }, "web", undefined, "n"]);
    assert.deepEqual([web.deletionTimestamp, web.controller.kind], [undefined, "Deployment"]);
    assert.deepEqual([web.field("/data/list"), web.field("/data/no"), web.text("/data/a")], [[1, { b: null }], undefined, 'x "y"']);
    assert.deepEqual([web.text("/data/list/1"), web.text("/no")], ['{"b":null}', undefined]);
    assert.deepEqual(web.fields("/data/list/0", "/data/no", "/data/a"), [1, undefined, 'x "y"']);
    assert.deepEqual(web.texts("/data/a", "/no", "/data/list/1"), ['x "y"', undefined, '{"b":null}']);
    assert.equal(web.json().data.a, 'x "y"');
    assert.equal(JSON.stringify(web), web.jsonText());
  });
});

test("a list is read page by page, until the loop ends", () => {
  const objects = ["a", "b", "c", "d", "e"].map((name) => configMap(name, { labels: { odd: String("ace".includes(name)) } }));
  reading(objects, (ctx) => {
    const maps = ctx.cache("maps");
    const names = (query) => [...maps.list(query)].map(({ key }) => key.name).join("");
    assert.equal(names({ limit: 2 }), "abcde");
    assert.equal(names({ labelSelector: "odd=true", limit: 1 }), "ace");
    assert.equal(names({ namespace: "other" }), "");
    assert.equal(names({ cursor: "default/c" }), "de");
    assert.equal(maps.page({ limit: 2 }).next, "default/b");
    assert.equal(maps.page().next, undefined);
    for (const { key } of maps.list({ limit: 2 })) if (key.name === "b") break;
    assert.throws(() => maps.page({ limit: -1 }), RangeError);
  });
});

test("fields, indexes and keys open no handle", () => {
  const objects = [configMap("a", { data: { group: "red", n: 1 } }), configMap("b", { data: { group: "blue" } })];
  const indexes = [{ name: "byGroup", field: "{.data.group}" }];
  reading(objects, (ctx) => {
    const maps = ctx.cache("maps");
    const rows = maps.listFields({}, "/data/n", "/data/group");
    assert.deepEqual(rows.map(({ key, values }) => [`${key}`, values]), [["default/a", [1, "red"]], ["default/b", [undefined, "blue"]]]);
    assert.deepEqual(maps.indexKeys("byGroup", "red").map(String), ["default/a"]);
    assert.deepEqual(maps.indexValues("byGroup"), ["blue", "red"]);
    assert.deepEqual(maps.byIndex("byGroup", "blue").map(({ key }) => key.name), ["b"]);
    assert.deepEqual([maps.hasSynced(), maps.get({ name: "nowhere" })], [true, undefined]);
  }, { indexes });
});

test("a computed index is queried in a reconcile, whose handles stay open", () => {
  const watches = [{ ...CONFIG_MAPS, indexes: [{ name: "bySize", computed: true }] }];
  const plugin = definePlugin({
    describe: { name: "sizes", version: "1", watches },
    reconcile(ctx) {
      const web = ctx.cache("maps").get(WEB);
      assert.deepEqual(ctx.cache("maps").byIndex("bySize", "1").map(({ key }) => key.name), ["web"]);
      assert.deepEqual(ctx.cache("maps").indexValues("bySize"), ["0", "1"]);
      assert.equal(web.key.name, "web");
    },
    indexes: { bySize: (object) => String(Object.keys(object.field("/data")).length) },
  });
  const host = fakeHost(plugin, { objects: [configMap("web", { data: { a: "1" } }), configMap("b")] });
  assert.deepEqual(host.reconcile("maps", WEB), { outcome: "done" });
  assert.equal(host.openHandles, 0);
});

test("handles close with the call, except those that are kept", () => {
  const { answer: [kept, lost], host } = reading([configMap("web"), configMap("b")], (ctx) => {
    const maps = ctx.cache("maps");
    maps.get({ namespace: "default", name: "b" }).close();
    return [maps.get(WEB).keep(), maps.get(WEB)];
  });
  assert.equal(kept.key.name, "web");
  assert.equal(host.openHandles, 1);
  assert.throws(() => lost.key, /handle is closed; .* keep\(\) the object/);
  lost.close();
  kept.close();
  assert.equal(host.openHandles, 0);
});

test("a call that throws leaves no handle open", () => {
  const host = fakeHost(reconciler((ctx) => { ctx.cache("maps").get(WEB); throw new Error("no"); }), { objects: [configMap("web")] });
  assert.equal(host.reconcile("maps", WEB).outcome, "retry");
  assert.equal(host.openHandles, 0);
});

test("a key is read from a key, an object or a handle", () => {
  const key = new ObjectKey("default", "web");
  assert.equal(`${key}`, "default/web");
  assert.equal(`${new ObjectKey("", "node-1")}`, "node-1");
  assert.equal(`${key.sibling("db")}`, "default/db");
  assert.ok(key.equals({ namespace: "default", name: "web" }) && !key.equals({ name: "web" }));
  for (const value of [key, WEB, configMap("web")]) assert.equal(`${ObjectKey.of(value)}`, "default/web");
  reading([configMap("web")], (ctx) => assert.ok(ObjectKey.of(ctx.cache("maps").get(WEB)).equals(key)));
  for (const value of [undefined, {}, { name: 3 }]) assert.throws(() => ObjectKey.of(value), TypeError);
});
