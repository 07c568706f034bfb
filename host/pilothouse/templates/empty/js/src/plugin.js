// A controller for Pilothouse.

import { definePlugin, log } from "@pilothouse/sdk";

// The name of the watch.
const CONFIG_MAPS = "configmaps";

export default definePlugin({
  describe: {
    name: "{{name}}",
    version: "0.1.0",
    watches: [{ name: CONFIG_MAPS, apiVersion: "v1", kind: "ConfigMap", trigger: "self" }],
  },

  reconcile(ctx, request) {
    if (ctx.cache(CONFIG_MAPS).get(request.key) !== undefined) log.info(`hello, ${request.key}`);
  },
});
