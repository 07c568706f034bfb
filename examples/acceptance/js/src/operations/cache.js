import { client, ObjectKey } from "@pilothouse/sdk";

import { keys, pages } from "./text.js";

/** The operations that read the cache and objects. */
export const cache = {
  get({ ctx, result, a, b, c, d }) {
    const object = ctx.cache(a).get(new ObjectKey(b, c));
    result(object === undefined ? "none" : (object.text(d) ?? "absent"));
  },

  "json-length"({ ctx, result, a, b, c }) {
    const object = ctx.cache(a).get(new ObjectKey(b, c));
    result(object === undefined ? "none" : utf8Length(object.jsonText()));
  },

  object({ ctx, result, a, b, c }) {
    const object = ctx.cache(a).get(new ObjectKey(b, c));
    result(object === undefined ? "none" : everyMethod(object));
  },

  list({ ctx, result, a, b, c, d }) {
    result(pages((cursor) => ctx.cache(a).page({ namespace: b, labelSelector: c, limit: Number(d), cursor })));
  },

  "list-fields"({ ctx, result, a, b, c, d }) {
    const rows = ctx.cache(a).listFields({ namespace: b, labelSelector: c }, d);
    result(rows.map(({ key, values: [value] }) => `${key}=${JSON.stringify(value) ?? "-"}`).join(" "));
  },

  "by-index"({ ctx, result, a, b, c }) {
    result(keys(ctx.cache(a).byIndex(b, c)));
  },

  "index-keys"({ ctx, result, a, b, c }) {
    result(ctx.cache(a).indexKeys(b, c).join(" "));
  },

  "index-values"({ ctx, result, a, b }) {
    result(ctx.cache(a).indexValues(b).join(" "));
  },

  "has-synced"({ ctx, result, a }) {
    result(ctx.cache(a).hasSynced());
  },

  "own-write"({ ctx, request, result, a, b }) {
    const key = request.key.sibling(a);
    client.patch({ apiVersion: "v1", kind: "ConfigMap" }, key, { data: { value: b } });
    result(ctx.cache("items").get(key)?.text("/data/value") ?? "absent");
  },
};

function everyMethod(object) {
  const several = ["/data/value", "/data/nothing", "/kind"];
  const set = (text, otherwise) => (text ? "set" : otherwise);
  const labels = Object.entries(object.labels).map(([key, value]) => `${key}=${value}`);
  const { controller } = object;
  return [
    `key=${object.key}`,
    `api-version=${object.apiVersion}`,
    `kind=${object.kind}`,
    `uid=${set(object.uid, "")}`,
    `resource-version=${set(object.resourceVersion, "")}`,
    `generation=${object.generation}`,
    `labels=${labels}`,
    `label=${object.label("tier") ?? "-"}`,
    `annotation=${object.annotation("note") ?? "-"}`,
    `deletion-timestamp=${set(object.deletionTimestamp, "-")}`,
    `controller=${controller === undefined ? "-" : `${controller.kind}/${controller.name}`}`,
    `field=${JSON.stringify(object.field("/data/value")) ?? "-"}`,
    `text=${object.text("/data/value") ?? "-"}`,
    `fields=${object.fields(...several).map((value) => JSON.stringify(value) ?? "-")}`,
    `texts=${object.texts(...several).map((text) => text ?? "-")}`,
  ].join("\n");
}

/** Returns the length in UTF-8; QuickJS has no TextEncoder. */
function utf8Length(text) {
  let length = 0;
  for (const character of text) {
    const code = character.codePointAt(0);
    length += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return length;
}
