import { definePlugin, log, Terminal } from "@pilothouse/sdk";

import { describe } from "./descriptor.js";
import { errorValue } from "./error-value.js";
import { operations } from "./operations/index.js";

export default definePlugin({
  describe,

  reconcile(ctx, request) {
    const script = ctx.cache("scripts").get(request.key);
    if (script === undefined) return;
    const { op, ...data } = script.field("/data");
    const operation = operations.get(op);
    if (operation === undefined) throw new Terminal(`no operation ${op}`);
    // A missing argument is "".
    const args = { a: "", b: "", c: "", d: "", e: "", f: "", g: "", body: "", ...data };
    const result = (value) => log.info("result", { op, value });
    try {
      return operation({ ctx, request, script, result, ...args });
    } catch (error) {
      result(errorValue(error));
    }
  },

  observe(_, notifications) {
    for (const notification of notifications) {
      const after = notification.field("/data/value");
      if (after === "trap") throw new Error("a trap in observe");
      log.info("observed", {
        watch: notification.watch,
        key: notification.key,
        change: notification.change,
        initial: notification.initial,
        unknown: notification.finalStateUnknown,
        before: notification.before()?.text("/data/value") ?? "-",
        after: JSON.stringify(after) ?? "-",
      });
    }
  },

  indexes: {
    byWord(object) {
      const words = (object.text("/data/words") ?? "").split(" ").filter((word) => word !== "");
      if (words.includes("trap")) throw new Error("a trap in the index");
      return words;
    },
  },
});
