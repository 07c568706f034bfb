// How the results and errors of a plugin's functions are converted.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, client, config, definePlugin, Retry, Terminal } from "@pilothouse/sdk";
import { fakeHost } from "@pilothouse/sdk/testing";

import { configMap, CONFIG_MAPS, reconciler, WEB } from "./objects.js";

function reconciled(reconcile) {
  return fakeHost(reconciler(reconcile)).reconcile("maps", WEB);
}

test("undefined is done, and a delay is rounded up and bounded", () => {
  assert.deepEqual(reconciled(() => {}), { outcome: "done" });
  assert.deepEqual(reconciled(() => null), { outcome: "done" });
  assert.deepEqual(reconciled(() => ({ requeueAfter: 0.1 })), { outcome: "requeue-after", after: 1 });
  assert.deepEqual(reconciled(() => ({ requeueAfter: 1e12 })), { outcome: "requeue-after", after: 2147483647 });
});

test("an invalid result is an error that says what is valid", () => {
  for (const [answer, text] of [
    [{ requeueAfter: -1 }, /0 or more, not -1/],
    [{ requeueAfter: "30s" }, /a number of milliseconds/],
    [{ requeue: true }, /requeueAfter: milliseconds/],
    [Promise.resolve(), /remove async and await/],
  ]) {
    const { outcome, message } = reconciled(() => answer);
    assert.equal(outcome, "retry");
    assert.match(message, text);
  }
});

test("a thrown error is retried with its text and location, a Retry with its text only", () => {
  const { outcome, message } = reconciled(function repair() {
    throw new TypeError("no image");
  });
  assert.equal(outcome, "retry");
  assert.match(message, /^TypeError: no image, in .*repair.*calls\.test\.js:\d+/);
  const cause = new Error("closed");
  assert.match(reconciled(() => { throw new Error("no answer", { cause }); }).message, /no answer.*; caused by Error: closed/);
  assert.deepEqual(reconciled(() => { throw new Retry("busy"); }), { outcome: "retry", message: "busy" });
  assert.deepEqual(reconciled(() => { throw new Terminal("hopeless"); }), { outcome: "terminal", message: "hopeless" });
  assert.equal(reconciled(() => { throw "\ud800"; }).message, "\ufffd", "half a surrogate pair is no UTF-8");
});

test("the request has its key and extra", () => {
  let received;
  const host = fakeHost(reconciler((_, request) => { received = request; }));
  host.reconcile("maps", WEB, { reasons: ["created", "retry"], attempt: 3 });
  assert.equal(`${received.key}`, "default/web");
  assert.deepEqual([received.watch, received.attempt, received.reasons, received.extra], ["maps", 3, ["created", "retry"], {}]);
});

test("describe returns the document, or rejects the config", () => {
  const plugin = definePlugin({
    describe(config) {
      if (config.image === undefined) throw new Error("config.image is missing");
      return { name: "strict", version: "1.0.0", watches: [] };
    },
    reconcile() {},
  });
  const { descriptor } = fakeHost(plugin, { config: { image: "nginx" } });
  assert.deepEqual(descriptor, { apiVersion: "pilothouse.dev/v1alpha1", kind: "Plugin", name: "strict", version: "1.0.0", watches: [] });
  assert.throws(() => fakeHost(plugin), (refusal) => refusal === "config.image is missing");
});

test("the config is the same in every call, and parsed once", () => {
  const seen = [];
  const plugin = reconciler(() => { seen.push(config()); });
  for (const size of [1, 2]) {
    const host = fakeHost(plugin, { config: { size } });
    host.reconcile("maps", WEB);
    host.reconcile("maps", WEB);
  }
  assert.deepEqual(seen.map(({ size }) => size), [1, 1, 2, 2]);
  assert.equal(seen[0], seen[1]);
});

test("an invalid definition is rejected by definePlugin", () => {
  const describe = { name: "bad", version: "1" };
  for (const [plugin, text] of [
    [{ describe }, /at least one of/],
    [{ reconcile() {} }, /describe must be/],
    [{ describe, reconcil() {} }, /unknown member reconcil/],
    [{ describe, reconcile: 3 }, /reconcile must be a function/],
    [{ describe, async reconcile() {} }, /reconcile is async/],
    [{ describe, indexes: { byWord: async () => [] } }, /byWord is async/],
  ]) {
    assert.throws(() => definePlugin(plugin), text);
  }
});

test("an observer receives notifications in order, with both states", () => {
  const seen = [];
  const plugin = definePlugin({
    describe: { name: "watcher", version: "1", watches: [{ ...CONFIG_MAPS, notify: true }] },
    observe(_, notifications) {
      for (const received of notifications) {
        seen.push(`${received}: ${received.before()?.text("/data/value")} -> ${received.field("/data/value")} ${received.initial}`);
      }
    },
  });
  const host = fakeHost(plugin);
  const one = configMap("web", { data: { value: "1" } });
  const two = configMap("web", { data: { value: "2" } });
  host.observe({ watch: "maps", after: one, initial: true }, { watch: "maps", before: one, after: two }, { watch: "maps", before: two });
  assert.deepEqual(seen, [
    "default/web added in maps: undefined -> 1 true",
    "default/web updated in maps: 1 -> 2 false",
    "default/web deleted in maps: 2 -> undefined false",
  ]);
  assert.equal(host.openHandles, 0);
});

test("a Retry or Terminal fails an observer's batch; any other error ends the instance", () => {
  const observing = (error) => {
    const watches = [{ ...CONFIG_MAPS, notify: true }];
    const host = fakeHost(definePlugin({ describe: { name: "o", version: "1", watches }, observe() { throw error; } }));
    host.observe({ watch: "maps", after: configMap("web") });
  };
  assert.throws(() => observing(new Terminal("never")), (failure) => failure.tag === "terminal" && failure.val === "never");
  assert.throws(() => observing(new ApiError("gone")), (failure) => failure.tag === "retry");
  assert.throws(() => observing(new TypeError("a fault")), TypeError);
});

test("a computed index accepts any iterable of values", () => {
  const indexes = {
    byWord: (object) => object.text("/data/words")?.split(" "),
    byName: (object) => object.key.name,
    byCount: () => 5,
    bySize: function* (object) { yield Object.keys(object.field("/data")).length; },
  };
  const host = fakeHost(definePlugin({ describe: { name: "i", version: "1" }, indexes }));
  const object = configMap("web", { data: { words: "a b" } });
  assert.deepEqual(host.indexValues("byWord", object), ["a", "b"]);
  assert.deepEqual(host.indexValues("byWord", configMap("none")), []);
  assert.deepEqual(host.indexValues("byName", object), ["web"]);
  assert.deepEqual(host.indexValues("bySize", object), ["1"]);
  assert.throws(() => host.indexValues("byColour", object), /does not compute the index byColour; it computes byWord, byName, byCount, bySize/);
  assert.throws(() => host.indexValues("byCount", object), /byCount returned number/);
});

test("an uncaught error of the client is reported with its location", () => {
  const host = fakeHost(reconciler((_, { key }) => { client.get({ apiVersion: "v1", kind: "Secret" }, key); }));
  const { outcome, message } = host.reconcile("maps", WEB);
  assert.equal(outcome, "retry");
  assert.match(message, /^Denied: .* need get on secrets of the core group in default, in .*calls\.test\.js/);
});
