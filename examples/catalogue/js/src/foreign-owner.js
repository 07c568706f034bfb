// Case 31: an owner in another namespace.
//
// The plugin publishes a text as a ConfigMap of another namespace. The wrong twin makes the Export its owner. The garbage collector looks for
// owners in the namespace of the object, finds none, and deletes the ConfigMap; the plugin creates it again.
//
// Sources: https://github.com/kubernetes/kubernetes/issues/65200, https://github.com/elastic/cloud-on-k8s/issues/3986,
// https://github.com/crossplane/crossplane/issues/895

import { client, definePlugin, owner } from "@pilothouse/sdk";

import definition from "../../crds/export.json" with { type: "json" };
import { API_VERSION, describeTwins, getLive, GROUP, setFinalizers } from "./kit.js";

const EXPORTS = "exports";
const COPIES = "copies";
const FINALIZER = `${GROUP}/export`;
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
    { apiGroups: [GROUP], resources: ["exports"], verbs: ["get", "patch"] },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "patch", "delete"] },
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
    // The cached Export may be one that was deleted since.
    const source = getLive({ apiVersion: API_VERSION, kind: "Export" }, key);
    if (source === undefined) return;
    if (!source.deletionTimestamp) {
      setFinalizers(source, [FINALIZER]);
      publish(ctx, source, {});
      return;
    }
    const copy = getLive(CONFIG_MAP, copyOf(source));
    if (copy?.annotation("exportUid") === source.uid) client.delete(copy, copy.key, { uid: copy.uid });
    setFinalizers(source, []);
  },
});

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
