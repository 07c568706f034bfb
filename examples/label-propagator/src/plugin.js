// Copies chosen labels of a Namespace to the ConfigMaps in it, so that a selector on `team` or `cost-centre` finds them.

import { client, config, definePlugin, log } from "@pilothouse/sdk";

const DEFAULT_LABELS = ["team", "cost-centre"];

export default definePlugin({
  describe({ labels = DEFAULT_LABELS }) {
    if (!Array.isArray(labels) || labels.length === 0 || !labels.every((label) => typeof label === "string")) {
      throw new Error("config.labels must be a list of label keys, such as [team, cost-centre]");
    }
    return {
      name: "label-propagator",
      version: "0.1.0",
      summary: `Copies the labels ${labels.join(", ")} from Namespaces to their ConfigMaps`,
      watches: [
        {
          name: "maps",
          apiVersion: "v1",
          kind: "ConfigMap",
          projection: "metadata",
          trigger: "self",
          // Ignores changes of a ConfigMap's data.
          predicate: "labelsChanged()",
          indexes: [{ name: "byNamespace", field: "{.metadata.namespace}" }],
        },
        {
          name: "namespaces",
          apiVersion: "v1",
          kind: "Namespace",
          projection: "metadata",
          // A Namespace's key is its name, under which the index lists all ConfigMaps in it.
          trigger: { index: { watch: "maps", index: "byNamespace" } },
          predicate: "labelsChanged()",
        },
      ],
      writes: [{ apiGroups: [""], resources: ["configmaps"], verbs: ["patch"] }],
    };
  },

  reconcile(ctx, { key }) {
    const map = ctx.cache("maps").get(key);
    const namespace = ctx.cache("namespaces").get({ name: key.namespace });
    // The watch may deliver a ConfigMap before its Namespace, which then queues the ConfigMap.
    if (map === undefined || namespace === undefined || map.deletionTimestamp || namespace.deletionTimestamp) return;

    const { labels: chosen = DEFAULT_LABELS } = config();
    if (chosen.every((label) => map.label(label) === namespace.label(label))) return;

    const present = chosen.filter((label) => namespace.label(label) !== undefined);
    const labels = Object.fromEntries(present.map((label) => [label, namespace.label(label)]));
    propagate(map, labels);
    log.info("propagated", labels);
  },
});

/**
 * Applies the labels server-side, so that this plugin owns them: a label that is omitted, because the Namespace no longer has it, is removed; a
 * label that another client set is kept until the Namespace has it too. The UID prevents the apply from recreating a deleted ConfigMap.
 */
function propagate({ apiVersion, kind, key, uid }, labels) {
  client.apply({ apiVersion, kind, metadata: { ...key, uid, labels } }, { force: true });
}
