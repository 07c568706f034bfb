// Requests, their errors, and the helpers that use them.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as sdk from "@pilothouse/sdk";
import { client, conditions, finalizer, owner } from "@pilothouse/sdk";
import { fakeHost } from "@pilothouse/sdk/testing";

import { configMap, foo, reconciler, WEB } from "./objects.js";

const MAP = { apiVersion: "v1", kind: "ConfigMap" };

/** Runs `work(host, ctx)` in a reconcile over `objects`. */
function writing(objects, work) {
  let thrown;
  const plugin = reconciler((ctx) => {
    try {
      work(host, ctx);
    } catch (error) {
      thrown = error;
    }
  });
  const host = fakeHost(plugin, { objects });
  host.reconcile("maps", WEB);
  if (thrown !== undefined) throw thrown;
  return host;
}

test("every verb reaches the cluster", () => {
  writing([], (host) => {
    assert.equal(client.create(configMap("web", { data: { a: "1" } })).text("/data/a"), "1");
    const read = client.get(MAP, WEB).json();
    client.update({ ...read, data: { a: "2" } });
    client.patch(MAP, WEB, { data: { b: "3" } });
    client.apply({ ...configMap("web"), data: { c: "4" } });
    client.updateStatus({ ...client.create(foo("web")).json(), status: { ready: true } });
    assert.deepEqual(host.get(MAP, WEB).data, { a: "2", b: "3", c: "4" });
    assert.deepEqual(host.get(foo(), WEB).status, { ready: true });
    assert.deepEqual([...client.list(MAP, { limit: 1 })].map(({ key }) => `${key}`), ["default/web"]);
    client.delete(MAP, WEB);
    assert.equal(host.get(MAP, WEB), undefined);
    assert.deepEqual(host.requests.map(({ verb }) => verb), ["create", "get", "update", "patch", "patch", "create", "update", "list", "delete"]);
  });
});

test("an apply omits fields that the server would reject", () => {
  writing([configMap("web")], () => {
    const read = client.get(MAP, WEB).json();
    client.patch(MAP, WEB, { data: { other: "change" } });
    client.apply({ ...read, data: { mine: "1" } });
  });
});

test("each of the contract's errors is a class with its details", () => {
  const rule = { apiGroups: ["apps"], resources: ["deployments"], verbs: ["create"], namespaces: ["default"] };
  const causes = [{ field: "spec.replicas", reason: "FieldValueInvalid", message: "bad" }, { field: "", reason: "", message: "worse" }];
  for (const [tag, val, name, expected] of [
    ["not-found", "gone", "NotFound", { message: "gone" }],
    ["already-exists", "there", "AlreadyExists", { message: "there" }],
    ["conflict", { message: "changed", resourceVersion: "7" }, "Conflict", { message: "changed", resourceVersion: "7" }],
    ["conflict", { message: "changed", resourceVersion: "" }, "Conflict", { resourceVersion: undefined }],
    ["invalid", causes, "Invalid", { message: "spec.replicas: bad; worse", causes }],
    ["forbidden", "no", "Forbidden", { message: "no" }],
    ["denied", rule, "Denied", { message: "the descriptor's writes and the grant need create on deployments of apps in default", rule }],
    ["too-many-requests", 300, "TooManyRequests", { retryAfter: 300 }],
    ["unavailable", "refused", "Unavailable", { message: "refused" }],
    ["other", { code: 500, reason: "Oops", message: "m" }, "OtherStatus", { code: 500, reason: "Oops", message: "500 Oops: m" }],
  ]) {
    writing([], (host) => {
      host.failNext(tag, val);
      assert.throws(() => client.get(MAP, WEB), (error) => {
        assert.ok(error instanceof sdk[name] && error instanceof sdk.ApiError && error.name === name, `${error}`);
        for (const [member, value] of Object.entries(expected)) assert.deepEqual(error[member], value);
        return true;
      });
    });
  }
});

test("other errors are rethrown, and invalid arguments are rejected before a request", () => {
  writing([], (host) => {
    assert.throws(() => client.get({ kind: "ConfigMap" }, WEB), /apiVersion and kind must be strings/);
    assert.throws(() => client.get(MAP, {}), TypeError);
    assert.throws(() => client.apply({ ...MAP, data: {} }), { message: "the object of kind ConfigMap has no metadata.name" });
    assert.throws(() => host.put(MAP), { message: "the object to put has no metadata.name" });
    assert.throws(() => host.put({ ...MAP, metadata: {} }), { message: "the object to put has no metadata.name" });
    assert.throws(() => host.put({ metadata: { name: "web" } }), { message: "the object to put has no apiVersion and kind" });
    assert.throws(() => client.patch(MAP, WEB, {}, { type: "diff" }), /json, merge, strategic, apply, not diff/);
    assert.throws(() => client.delete(MAP, WEB, { propagation: "maybe" }), /background, foreground or orphan/);
  });
});

test("createOrUpdate sends a request only when something differs", () => {
  const fast = (map) => { map.data.mode = "fast"; };
  writing([], (host, ctx) => {
    const cached = () => ctx.cache("maps").get(WEB)?.json();
    const start = () => configMap("web", { data: { mode: "none" } });
    const { object, change } = client.createOrUpdate(cached(), start, fast);
    assert.deepEqual([change, object.data.mode], ["created", "fast"]);
    assert.equal(client.createOrUpdate(cached(), start, fast).change, "unchanged");
    assert.equal(client.createOrUpdate(ctx.cache("maps").get(WEB), start, fast).change, "unchanged", "a handle will do");
    host.put(configMap("web", { data: { mode: "slow", other: "stays" } }));
    const present = cached();
    assert.equal(client.createOrUpdate(present, start, fast).change, "updated");
    assert.equal(present.data.mode, "slow", "what was read is not touched");
    assert.deepEqual(host.get(MAP, WEB).data, { mode: "fast", other: "stays" });
    assert.deepEqual(host.requests.map(({ verb }) => verb), ["create", "update"]);
  });
});

test("createOrUpdate ignores the order of keys, which the host chooses", () => {
  const team = { ...foo("team"), metadata: { namespace: "default", name: "team", uid: "u1" } };
  const map = () => configMap("web", { data: { z: "1", a: "2" } });
  writing([], (host, ctx) => {
    const mutate = (object) => {
      owner.setController(object, team);
      object.data = { z: "1", a: "2", unset: undefined };
    };
    const run = () => client.createOrUpdate(ctx.cache("maps").get(WEB)?.json(), map, mutate).change;
    assert.deepEqual([run(), run(), run()], ["created", "unchanged", "unchanged"]);
    assert.deepEqual(host.writes, ["create v1 ConfigMap default/web"]);
    const read = ctx.cache("maps").get(WEB);
    assert.deepEqual(Object.keys(read.json().data), ["a", "z"], "as a server returns them");
    assert.equal(read.text("/data"), '{"a":"2","z":"1"}');
  });
});

test("a conflict is tried up to five times, any other error once", () => {
  const attempts = (fails, error) => {
    let count = 0;
    const work = () => {
      count += 1;
      if (count <= fails) throw error;
      return count;
    };
    try {
      return client.retryOnConflict(work);
    } catch (thrown) {
      return [count, thrown === error];
    }
  };
  assert.equal(attempts(2, new sdk.Conflict("changed")), 3);
  assert.deepEqual(attempts(9, new sdk.Conflict("changed")), [5, true]);
  assert.deepEqual(attempts(9, new sdk.Forbidden("no")), [1, true]);
});

test("a finalizer is added before the work and removed after the cleanup", () => {
  const NAME = "example.com/cleanup";
  const ran = [];
  const run = (ctx, cleanup = () => ran.push("cleanup")) =>
    finalizer.run(ctx.cache("maps").get(WEB).json(), NAME, { apply: () => ran.push("apply"), cleanup });
  writing([configMap("web", { finalizers: ["other"] })], (host, ctx) => {
    run(ctx);
    assert.deepEqual(host.get(MAP, WEB).metadata.finalizers, ["other", NAME]);
    run(ctx);
    assert.equal(host.requests.length, 1, "it is there already");
    client.delete(MAP, WEB);
    assert.throws(() => run(ctx, () => { throw new Error("not yet"); }), /not yet/);
    assert.deepEqual(host.get(MAP, WEB).metadata.finalizers, ["other", NAME], "a cleanup that throws holds it");
    run(ctx);
    assert.deepEqual(host.get(MAP, WEB).metadata.finalizers, ["other"]);
    assert.equal(run(ctx), undefined, "nothing is started for an object that goes");
    assert.deepEqual(ran, ["apply", "apply", "cleanup"]);
  });
  writing([configMap("web", { finalizers: [NAME] })], (host, ctx) => {
    client.delete(MAP, WEB);
    host.failNext("not-found", "gone");
    run(ctx);
  });
});

test("the work receives the object with its finalizer, and can update its status", () => {
  const NAME = "example.com/cleanup";
  writing([foo("web")], (host) => {
    const read = client.get(foo(), WEB).json();
    const apply = (object) => {
      assert.deepEqual(object.metadata.finalizers, [NAME]);
      return client.updateStatus({ ...object, status: { ready: true } }).json();
    };
    const updated = finalizer.run(read, NAME, { apply, cleanup: assert.fail });
    assert.deepEqual(host.get(foo(), WEB).status, { ready: true });
    client.delete(foo(), WEB);
    const cleanup = (object) => object.status;
    assert.deepEqual(finalizer.run(host.get(foo(), WEB), NAME, { apply: assert.fail, cleanup }), updated.status);
    assert.equal(host.get(foo(), WEB), undefined);
  });
});

test("owners are compared by UID", () => {
  const web = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web", uid: "u1" } };
  const set = { metadata: { name: "web-1" } };
  owner.setController(set, web);
  owner.setController(set, web);
  const reference = { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "u1", controller: true, blockOwnerDeletion: true };
  assert.deepEqual(set.metadata.ownerReferences, [reference]);
  const other = { apiVersion: "v1", kind: "Pod", name: "p", uid: "u9" };
  const { uid, ...withoutUid } = reference;
  const reordered = { uid, ...withoutUid };
  const shared = { metadata: { ownerReferences: [reordered, other] } };
  owner.setController(shared, web);
  assert.equal(shared.metadata.ownerReferences[0], reordered, "an equal reference is not replaced");
  shared.metadata.ownerReferences[0] = { ...reference, controller: false };
  owner.setController(shared, web);
  assert.deepEqual(shared.metadata.ownerReferences, [reference, other], "a different one is replaced where it is");
  assert.ok(owner.isControlledBy(set, web));
  const again = { ...web, metadata: { name: "web", uid: "u2" } };
  assert.ok(!owner.isControlledBy(set, again) && !owner.isControlledBy({}, { metadata: {} }));
  assert.throws(() => owner.setController(set, again), /web-1 is already controlled by Deployment web/);
  assert.throws(() => owner.controllerOwnerRef({ kind: "Deployment", metadata: {} }), /was it read from the server/);
});

test("the transition time changes only with the status", () => {
  const list = [];
  const at = (second) => new Date(second * 1000);
  const ready = (status, message) => ({ type: "Ready", status, reason: "Checked", message });
  assert.ok(conditions.set(list, ready(false, "starting"), at(10)));
  assert.ok(conditions.set(list, ready(false, "still starting"), at(20)));
  assert.ok(!conditions.set(list, ready("False", "still starting"), at(25)));
  assert.equal(list[0].lastTransitionTime, "1970-01-01T00:00:10Z");
  assert.ok(conditions.set(list, ready(true, "up"), at(30)));
  assert.deepEqual(list, [{ type: "Ready", status: "True", reason: "Checked", message: "up", lastTransitionTime: "1970-01-01T00:00:30Z" }]);
  assert.ok(conditions.isTrue(list, "Ready") && !conditions.isTrue(list, "Other"));
  assert.ok(conditions.remove(list, "Ready") && !conditions.remove(list, "Ready"));
  assert.equal(conditions.find(list, "Ready"), undefined);
});
