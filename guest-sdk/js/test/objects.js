// Objects and plugins for tests.

import { definePlugin } from "@pilothouse/sdk";

export const CONFIG_MAPS = { name: "maps", apiVersion: "v1", kind: "ConfigMap", trigger: "self" };

export function configMap(name, { data = {}, ...metadata } = {}) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "default", name, ...metadata }, data };
}

export function foo(name, { status, ...metadata } = {}) {
  return { apiVersion: "example.com/v1", kind: "Foo", metadata: { namespace: "default", name, ...metadata }, status };
}

/** A plugin over ConfigMaps that may write them, and Foos. */
export function reconciler(reconcile, more = {}) {
  const writes = [
    { apiGroups: [""], resources: ["configmaps"], verbs: ["*"] },
    { apiGroups: ["example.com"], resources: ["foos", "foos/status"], verbs: ["*"] },
  ];
  return definePlugin({ describe: { name: "test", version: "1.0.0", watches: [{ ...CONFIG_MAPS, ...more }], writes }, reconcile });
}

export const WEB = { namespace: "default", name: "web" };
