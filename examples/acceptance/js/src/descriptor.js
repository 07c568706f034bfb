/** Returns the descriptor, or throws when the sidecar's config asks for it. */
export function describe({ fail }) {
  if (fail !== undefined) throw new Error(fail);
  const verbs = ["get", "list", "create", "update", "patch", "delete"];
  return {
    name: "acceptance-js",
    version: "0.1.0",
    summary: "Performs the operations of ConfigMaps",
    watches: [
      { name: "scripts", apiVersion: "v1", kind: "ConfigMap", labelSelector: "test=acceptance", trigger: "self" },
      {
        name: "items",
        apiVersion: "v1",
        kind: "ConfigMap",
        labelSelector: "test=acceptance-item",
        notify: true,
        indexes: [
          { name: "byGroup", field: "{.data.group}" },
          { name: "byWord", computed: true },
        ],
      },
      { name: "namespaces", apiVersion: "v1", kind: "Namespace" },
      { name: "deployments", apiVersion: "apps/v1", kind: "Deployment", labelSelector: "test=acceptance-item" },
    ],
    writes: [
      { apiGroups: [""], resources: ["configmaps"], verbs },
      { apiGroups: ["apps"], resources: ["deployments", "deployments/status", "deployments/scale"], verbs },
    ],
  };
}
