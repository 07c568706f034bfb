// Runs the specification of the fake cluster, guest-sdk/testing/cases.json. guest-sdk/testing/README.md describes its format.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import * as sdk from "@pilothouse/sdk";
import { client, definePlugin, ObjectKey, Retry, Terminal } from "@pilothouse/sdk";
import { fakeHost, Trap } from "@pilothouse/sdk/testing";

const table = JSON.parse(await readFile(new URL("../../testing/cases.json", import.meta.url), "utf8"));

for (const { name, steps } of table.cases) {
  test(name, () => {
    const run = new Case();
    for (const [position, step] of steps.entries()) {
      const operation = Object.keys(step)[0];
      try {
        run.step(operation, step);
      } catch (error) {
        error.message = `step ${position + 1}, ${operation}: ${error.message}`;
        throw error;
      }
    }
  });
}

/** One case: a host with the plugin of the table, and the variables. */
class Case {
  #variables = new Map();
  #work = () => undefined;
  #host = fakeHost(
    definePlugin({
      describe: () => {
        const { apiVersion, kind, ...described } = table.plugin;
        return described;
      },
      reconcile: (ctx, request) => this.#work(ctx, request),
      indexes: { byWord: (object) => object.text("/data/words")?.match(/\w+/g) ?? [] },
    }),
  );

  step(operation, { [operation]: template, returns, error, traps, ...options }) {
    const argument = this.#filled(template);
    if (Object.hasOwn(this.#ofTest, operation)) {
      const result = this.#ofTest[operation](argument, options);
      if (returns !== undefined) this.#expect(returns, result, "the result");
      return;
    }
    const perform = ofPlugin[operation];
    assert.ok(perform !== undefined, "the runner does not know this operation");
    const [result, thrown] = this.#inPlugin((ctx) => perform(argument, options, ctx));
    if (traps !== undefined) {
      assert.ok(thrown instanceof Trap, `it threw ${thrown}`);
      assert.ok(thrown.message.includes(traps), thrown.message);
    } else if (error !== undefined) {
      assert.ok(thrown instanceof sdk.ApiError, thrown === undefined ? `it returned ${JSON.stringify(result)}` : `it threw ${thrown}`);
      this.#expect(error, fromError(thrown), "the error");
    } else {
      if (thrown !== undefined) throw thrown;
      if (returns !== undefined) this.#expect(returns, result, "the result");
    }
  }

  #inPlugin(perform) {
    let outcome;
    this.#work = (ctx) => {
      try {
        outcome = [perform(ctx)];
      } catch (error) {
        outcome = [undefined, error];
      }
    };
    try {
      this.#host.reconcile("foos", { namespace: "a", name: "work" });
    } catch (trap) {
      return [undefined, trap];
    }
    return outcome;
  }

  #filled(value) {
    if (typeof value === "string" && value.startsWith("$")) return this.#variables.get(value);
    if (Array.isArray(value)) return value.map((inner) => this.#filled(inner));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, this.#filled(inner)]));
  }

  #expect(pattern, found, where) {
    const text = `${where} is ${JSON.stringify(found)}, not ${JSON.stringify(pattern)}`;
    if (Array.isArray(pattern)) {
      assert.ok(Array.isArray(found) && found.length === pattern.length, text);
      for (const [position, inner] of pattern.entries()) this.#expect(inner, found[position], `${where}[${position}]`);
    } else if (typeof pattern === "object" && pattern !== null) {
      assert.ok(typeof found === "object" && found !== null && !Array.isArray(found), text);
      for (const [name, inner] of Object.entries(pattern)) this.#expect(inner, found[name], `${where}.${name}`);
    } else if (typeof pattern === "string" && pattern.startsWith("!")) {
      const other = this.#variables.get(pattern.slice(1)) ?? pattern.slice(1);
      assert.ok(typeof found === "string" && found !== "" && found !== other, text);
    } else if (typeof pattern === "string" && pattern.startsWith("$")) {
      assert.ok(typeof found === "string", text);
      if (!this.#variables.has(pattern)) this.#variables.set(pattern, found);
      assert.equal(found, this.#variables.get(pattern), `${text}, which is ${this.#variables.get(pattern)}`);
    } else {
      assert.equal(found ?? null, pattern, text);
    }
  }

  #ofTest = {
    put: (object) => this.#host.put(object),
    remove: (ref) => this.#host.remove(ref, keyOf(ref)),
    stored: (ref) => this.#host.get(ref, keyOf(ref)),
    fail: ({ error: { code, ...error }, ...requests }) => this.#host.fail(code, toPayload(code, error), requests),
    events: (expected) => {
      const found = this.#host.events.map(({ regarding, ...event }) => ({ ...event, key: `${ObjectKey.of(regarding)}` }));
      this.#expect(expected, found, "the Events");
    },
    queued: (expected) => {
      const found = this.#host.queued.map(({ watch, key, after = 0 }) => ({ watch, key: `${key}`, after }));
      this.#expect(expected, found, "the queue");
    },
    writes: (expected) => this.#expect(expected, this.#host.writes, "the writes"),
    reconcile: ({ watch, key, ...options }, { answer, sees = {} }) => {
      let request;
      this.#work = (_, received) => {
        request = received;
        if (answer.retry !== undefined) throw new Retry(answer.retry);
        if (answer.terminal !== undefined) throw new Terminal(answer.terminal);
        return answer.requeueAfter === undefined ? undefined : answer;
      };
      const { outcome, after, message } = this.#host.reconcile(watch, keyOf({ key }), options);
      this.#expect(sees, { ...request, key: `${request.key}` }, "the request");
      return { done: { done: true }, "requeue-after": { requeueAfter: after } }[outcome] ?? { [outcome]: message };
    },
  };
}

const ofPlugin = {
  create: (manifest, { subresource }) => client.create(manifest, { subresource }).json(),
  update: (manifest, { subresource }) => client.update(manifest, { subresource }).json(),
  patch: ({ type, body, ...ref }, { subresource }) => client.patch(ref, keyOf(ref), body, { type, subresource }).json(),
  apply: (manifest, options) => client.apply(manifest, options).json(),
  delete: ({ propagation, uid, resourceVersion, ...ref }) => client.delete(ref, keyOf(ref), { propagation, uid, resourceVersion }),
  get: (ref, { subresource }) => client.get(ref, keyOf(ref), { subresource }).json(),
  list: ({ labels, fields, ...query }) => pageOf(client.page(query, { ...query, labelSelector: labels, fieldSelector: fields })),
  cacheGet: ({ watch, key }, _, ctx) => ctx.cache(watch).get(keyOf({ key }))?.json(),
  cacheList: ({ watch, labels, ...query }, _, ctx) => pageOf(ctx.cache(watch).page({ ...query, labelSelector: labels })),
  cacheFields: ({ watch, labels, pointers, ...query }, _, ctx) => {
    const rows = ctx.cache(watch).listFields({ ...query, labelSelector: labels }, ...pointers);
    return rows.map(({ key, values }) => ({ key: `${key}`, values }));
  },
  byIndex: ({ watch, index, value }, _, ctx) => ctx.cache(watch).byIndex(index, value).map(({ key }) => `${key}`),
  indexKeys: ({ watch, index, value }, _, ctx) => ctx.cache(watch).indexKeys(index, value).map(String),
  indexValues: ({ watch, index }, _, ctx) => ctx.cache(watch).indexValues(index),
  queueAdd: ({ watch, key, after }, _, ctx) => {
    if (after === undefined) ctx.queue(watch).add(keyOf({ key }));
    else ctx.queue(watch).addAfter(keyOf({ key }), after);
  },
  publish: ({ watch, key, type, reason, action, note }, _, ctx) => ctx.events[type](ctx.cache(watch).get(keyOf({ key })), reason, action, note),
};

function keyOf({ key }) {
  const [name, namespace = ""] = key.split("/").reverse();
  return { namespace, name };
}

function pageOf({ items, next = "" }) {
  return { keys: items.map(({ key }) => `${key}`), next };
}

const CODES = {
  NotFound: "not-found",
  AlreadyExists: "already-exists",
  TooManyRequests: "too-many-requests",
  OtherStatus: "other",
};

function fromError(error) {
  const { name, code: status, resourceVersion = "", ...details } = error;
  return { ...details, status, resourceVersion, message: error.message, code: CODES[name] ?? name.toLowerCase() };
}

function toPayload(code, { message, status, reason, resourceVersion, causes, rule, retryAfter }) {
  switch (code) {
    case "conflict":
      return { message, resourceVersion };
    case "other":
      return { code: status, reason, message };
    default:
      return causes ?? rule ?? retryAfter ?? message;
  }
}
