// Case 31: an owner in another namespace.
//
// The plugin publishes a text as a ConfigMap of another namespace. The wrong twin makes the Export its owner. The garbage collector looks for
// owners in the namespace of the object, finds none, and deletes the ConfigMap; the plugin creates it again.
//
// Sources: https://github.com/kubernetes/kubernetes/issues/65200, https://github.com/elastic/cloud-on-k8s/issues/3986,
// https://github.com/crossplane/crossplane/issues/895

import { client, definePlugin, NotFound, owner } from "@pilothouse/sdk";

import definition from "../../crds/export.json" with { type: "json" };
import { API_VERSION, describeTwins, getLive, GROUP } from "./kit.js";

const EXPORTS = "exports";
const COPIES = "copies";
const CONFIG_MAP = { apiVersion: "v1", kind: "ConfigMap" };

const describe = describeTwins("foreign-owner", {
  crds: [definition],
  watches: [
    { name: EXPORTS, apiVersion: API_VERSION, kind: "Export", trigger: "self" },
    {
      name: COPIES,
      ...CONFIG_MAP,
      labelSelector: "export",
      trigger: {
        field: {
          path: "{.metadata.annotations.exportName}",
          namespacePath: "{.metadata.annotations.exportNamespace}",
          watch: EXPORTS,
        },
      },
    },
  ],
  writes: [
    { apiGroups: [GROUP], resources: ["exports"], verbs: ["get"] },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["create", "patch", "delete"] },
  ],
});

export const wrong = definePlugin({
  describe: describe.wrong,

  reconcile(ctx, { key }) {
    const source = ctx.cache(EXPORTS).get(key);
    if (source === undefined || source.deletionTimestamp) return;
    publish(ctx, source, { ownerReferences: [owner.controllerOwnerRef(source.json())] });
  },
});

export const right = definePlugin({
  describe: describe.right,

  reconcile(ctx, { key }) {
    // The cached Export may be one that was deleted since. Annotations take the place of the owner reference, and this loop takes that of the
    // garbage collector.
    const source = getLive({ apiVersion: API_VERSION, kind: "Export" }, key);
    for (const copy of ctx.cache(COPIES).list()) {
      const isOfKey = copy.annotation("exportName") === key.name && copy.annotation("exportNamespace") === key.namespace;
      if (isOfKey && copy.annotation("exportUid") !== source?.uid) remove(copy);
    }
    if (source !== undefined && !source.deletionTimestamp) publish(ctx, source, {});
  },
});

/** Deletes a ConfigMap, but no later one of the same name. */
function remove(copy) {
  try {
    client.delete(copy, copy.key, { uid: copy.uid });
  } catch (error) {
    if (!(error instanceof NotFound)) throw error;
  }
}

/** Returns the key of the ConfigMap of an Export. */
function copyOf(source) {
  return { namespace: source.text("/spec/namespace"), name: `${source.key.namespace}-${source.key.name}` };
}

/** Applies the ConfigMap of an Export, if it differs. */
function publish(ctx, source, metadata) {
  const key = copyOf(source);
  const text = source.text("/spec/text") ?? "";
  const present = ctx.cache(COPIES).get(key);
  if (present?.text("/data/text") === text && present.annotation("exportUid") === source.uid) return;
  const annotations = { exportName: source.key.name, exportNamespace: source.key.namespace, exportUid: source.uid };
  const manifest = { ...CONFIG_MAP, metadata: { ...key, labels: { export: "true" }, annotations, ...metadata }, data: { text } };
  client.apply(manifest, { force: true });
}
