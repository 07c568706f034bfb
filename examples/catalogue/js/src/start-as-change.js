// Case 23: takes the start for a change.
//
// The plugin restarts a Deployment when a Secret changes. The wrong twin does so for each addition and each update that it observes. After a
// start or a reload, all objects are observed as additions, and all Deployments restart.
//
// Sources: https://github.com/stakater/Reloader/issues/1089, https://github.com/stakater/Reloader/issues/810

import { client, definePlugin, NotFound } from "@pilothouse/sdk";

const SECRETS = "secrets";
const DEPLOYMENTS = "deployments";
/** The label of a Secret with the name of the Deployment that uses it. */
const USED_BY = "used-by";
/** The label of a Deployment with the name of the Secret that it uses. */
const USES = "uses";
const DEPLOYMENT = { apiVersion: "apps/v1", kind: "Deployment" };

const secrets = { name: SECRETS, apiVersion: "v1", kind: "Secret", labelSelector: USED_BY };
const deployments = { name: DEPLOYMENTS, ...DEPLOYMENT, labelSelector: USES, trigger: { label: { key: USES, watch: SECRETS } } };

function describe(twin, watches) {
  const writes = [{ apiGroups: ["apps"], resources: ["deployments"], verbs: ["patch"] }];
  return { name: `start-as-change-${twin}`, version: "0.1.0", watches, writes };
}

export const wrong = definePlugin({
  describe: describe("wrong", [{ ...secrets, notify: true }]),

  observe(ctx, notifications) {
    for (const notification of notifications) {
      const secret = notification.after();
      if (secret === undefined) continue;
      try {
        annotate(secret, { restartedAt: new Date().toISOString() });
      } catch (error) {
        if (!(error instanceof NotFound)) throw error;
      }
    }
  },
});

export const right = definePlugin({
  describe: describe("right", [{ ...secrets, trigger: "self" }, deployments]),

  reconcile(ctx, { key }) {
    const secret = ctx.cache(SECRETS).get(key);
    if (secret === undefined) return;
    const deployment = ctx.cache(DEPLOYMENTS).get(key.sibling(secret.label(USED_BY)));
    if (deployment === undefined) return; // Its creation queues the Secret again.
    // The Deployment says which content its Pods have, whatever happened to this process since.
    const hash = digest(JSON.stringify(secret.field("/data") ?? {}));
    if (deployment.text("/spec/template/metadata/annotations/secretHash") !== hash) annotate(secret, { secretHash: hash });
  },
});

/** Annotates the Pods of the Deployment that uses a Secret, which restarts them. */
function annotate(secret, annotations) {
  const key = secret.key.sibling(secret.label(USED_BY));
  client.patch(DEPLOYMENT, key, { spec: { template: { metadata: { annotations } } } });
}

/** Returns the FNV-1a hash of a text. */
function digest(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return hash.toString(16);
}
