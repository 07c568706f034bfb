// Case 25: writes a status with a fresh time.
//
// The plugin records when it checked last. Each of its writes changes the object, which is reconciled again, which is a check.
//
// Sources: https://github.com/syntasso/kratix/issues/743, https://github.com/crossplane/crossplane/issues/7221, fixed by
// https://github.com/crossplane/crossplane/pull/7283

import { client, definePlugin } from "@pilothouse/sdk";

import definition from "../../crds/check.json" with { type: "json" };
import { API_VERSION, describeTwins, GROUP } from "./kit.js";

const CHECKS = "checks";

const describe = describeTwins("fresh-time", {
  crds: [definition],
  watches: [{ name: CHECKS, apiVersion: API_VERSION, kind: "Check", trigger: "self" }],
  writes: [{ apiGroups: [GROUP], resources: ["checks/status"], verbs: ["patch"] }],
});

export const wrong = definePlugin({
  describe: describe.wrong,

  reconcile(ctx, { key }) {
    const check = ctx.cache(CHECKS).get(key);
    if (check !== undefined) record(check);
  },
});

export const right = definePlugin({
  describe: describe.right,

  reconcile(ctx, { key }) {
    const check = ctx.cache(CHECKS).get(key);
    if (check !== undefined && check.field("/status/healthy") !== true) record(check);
  },
});

function record(check) {
  const status = { healthy: true, lastChecked: new Date().toISOString() };
  client.patch(check, check.key, { status }, { subresource: "status" });
}
