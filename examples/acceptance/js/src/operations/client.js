import { client as api, ObjectKey } from "@pilothouse/sdk";

import { pages } from "./text.js";

/** The operations that send requests. */
export const client = {
  "client-get"({ result, a, b, c, d, e, f }) {
    const object = api.get({ apiVersion: a, kind: b }, new ObjectKey(c, d), { subresource: e });
    result(object.text(f) ?? "absent");
  },

  "client-list"({ result, a, b, c, d, e, f }) {
    const query = { namespace: c, labelSelector: d, fieldSelector: e, limit: Number(f) };
    result(pages((cursor) => api.page({ apiVersion: a, kind: b }, { ...query, cursor })));
  },

  create({ result, a, body }) {
    result(api.create(JSON.parse(body), { subresource: a }).key.name);
  },

  update({ result, a, body }) {
    result(api.update(JSON.parse(body), { subresource: a }).key.name);
  },

  patch({ result, a, b, c, d, e, f, body }) {
    const force = e === "apply-force";
    const options = { type: force ? "apply" : e, force, subresource: f };
    result(api.patch({ apiVersion: a, kind: b }, new ObjectKey(c, d), JSON.parse(body), options).key.name);
  },

  delete({ result, a, b, c, d, e, f, g }) {
    const options = { propagation: e || undefined, uid: f, resourceVersion: g };
    api.delete({ apiVersion: a, kind: b }, new ObjectKey(c, d), options);
    result("deleted");
  },

  denied({ request: { key }, result }) {
    api.create({ apiVersion: "v1", kind: "Secret", metadata: key.sibling("denied") });
    result("created");
  },
};
