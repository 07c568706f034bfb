// Events, log, metrics and queue.

import assert from "node:assert/strict";
import { test } from "node:test";

import { log, metrics } from "@pilothouse/sdk";
import { fakeHost } from "@pilothouse/sdk/testing";

import { configMap, reconciler, WEB } from "./objects.js";

function running(work, objects = []) {
  const host = fakeHost(reconciler(work), { objects });
  const { outcome, message } = host.reconcile("maps", WEB);
  assert.equal(outcome, "done", message);
  return host;
}

test("an Event is about a handle, an object read from one, or an object that the host finds", () => {
  const host = running((ctx) => {
    const web = ctx.cache("maps").get(WEB);
    ctx.events.normal(web, "Seen", "See", "by handle");
    ctx.events.warning(web.json(), "Seen", "See", "as read");
    ctx.events.normal(structuredClone(web.json()), "Seen", "See", "as a copy");
    ctx.events.normal({ ...ctx.cache("maps").get({ ...WEB, name: "b" }).json() }, "Seen", "See", "from the server");
    ctx.events.normal(configMap("nowhere", { uid: "u" }), "Lost", "Lose", "of nobody");
    ctx.events.normal(configMap("new"), "Lost", "Lose", "never stored");
  }, [configMap("web"), configMap("b")]);
  assert.deepEqual(host.events.map(({ type, note, regarding }) => [type, note, regarding.metadata.name]), [
    ["normal", "by handle", "web"],
    ["warning", "as read", "web"],
    ["normal", "as a copy", "web"],
    ["normal", "from the server", "b"],
  ]);
  assert.deepEqual(host.requests.map(({ key }) => key.name), ["b", "nowhere"]);
  assert.deepEqual(host.logs.map(({ level, fields }) => [level, fields.reason]), [["warn", "Lost"], ["warn", "Lost"]]);
  assert.equal(host.openHandles, 0);
});

test("any value is logged as text", () => {
  const circle = {};
  circle.self = circle;
  const host = running(() => {
    log.info("plain", { n: 3, list: [1, "b"], object: { a: 1 }, nothing: undefined });
    log.warn(circle);
    log.error(new Error("boom"));
    log.debug("half a pair: \ud83d");
  });
  const [plain, circular, error, half] = host.logs;
  assert.deepEqual(plain.fields, { n: "3", list: '[1,"b"]', object: '{"a":1}', nothing: "undefined" });
  assert.equal(circular.message, "[object Object]");
  assert.match(error.message, /^Error: boom\n.*effects\.test\.js/s);
  assert.equal(half.message, "half a pair: \ufffd");
  assert.deepEqual(host.logs.map(({ level }) => level), ["info", "warn", "error", "debug"]);
});

test("a counter adds 1 by default, and metrics accept only numbers", () => {
  const host = running(() => {
    metrics.counter("seen_total");
    metrics.counter("seen_total", { kind: "a" }, 2.5);
    metrics.gauge("level", {}, -1);
    metrics.histogram("seconds", { ok: true }, 0.25);
    assert.throws(() => metrics.gauge("level", {}, "3"), TypeError);
  });
  assert.deepEqual(host.metrics.map(({ name, labels, value }) => [name, labels, value]), [
    ["seen_total", {}, 1],
    ["seen_total", { kind: "a" }, 2.5],
    ["level", {}, -1],
    ["seconds", { ok: "true" }, 0.25],
  ]);
});

test("a key is queued now or after a delay", () => {
  const host = running((ctx) => {
    ctx.queue("maps").add(WEB);
    ctx.queue("maps").addAfter(configMap("b"), 10.2);
    assert.throws(() => ctx.queue("maps").addAfter(WEB, NaN), RangeError);
  });
  assert.deepEqual(host.queued.map(({ key, after }) => [`${key}`, after]), [["default/web", undefined], ["default/b", 11]]);
});
