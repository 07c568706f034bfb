// Case 13: initialised only in the branch that adds the finalizer.
//
// The plugin adds a finalizer to a new Work, and sets its phase. The wrong twin does both if the finalizer is missing. If the second write
// fails, or the process ends before it, the finalizer is there, and the phase is never set.
//
// Source: https://github.com/syntasso/kratix/issues/741

import { client, definePlugin } from "@pilothouse/sdk";

import definition from "../../crds/work.json" with { type: "json" };
import { API_VERSION, describeTwins, GROUP, setFinalizer } from "./kit.js";

const WORKS = "works";
const FINALIZER = `${GROUP}/work`;

const describe = describeTwins("finalizer-branch", {
  crds: [definition],
  watches: [{ name: WORKS, apiVersion: API_VERSION, kind: "Work", trigger: "self" }],
  writes: [{ apiGroups: [GROUP], resources: ["works", "works/status"], verbs: ["patch"] }],
});

export const wrong = definePlugin({
  describe: describe.wrong,

  reconcile(ctx, { key }) {
    const work = ctx.cache(WORKS).get(key);
    if (work === undefined) return;
    if (work.deletionTimestamp) {
      setFinalizer(work, FINALIZER, false);
    } else if (!(work.field("/metadata/finalizers") ?? []).includes(FINALIZER)) {
      setFinalizer(work, FINALIZER, true);
      setPhase(work);
    }
  },
});

export const right = definePlugin({
  describe: describe.right,

  reconcile(ctx, { key }) {
    const work = ctx.cache(WORKS).get(key);
    if (work === undefined) return;
    if (work.deletionTimestamp) {
      setFinalizer(work, FINALIZER, false);
      return;
    }
    setFinalizer(work, FINALIZER, true);
    if (work.text("/status/phase") === undefined) setPhase(work);
  },
});

function setPhase(work) {
  client.patch(work, work.key, { status: { phase: "Pending" } }, { subresource: "status" });
}
