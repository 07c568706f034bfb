import { owner } from "@pilothouse/sdk";

/** The Deployment of a Foo that has none yet. */
export function newDeployment(foo) {
  const labels = { app: "nginx", controller: foo.metadata.name };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      name: foo.spec.deploymentName,
      namespace: foo.metadata.namespace,
      ownerReferences: [owner.controllerOwnerRef(foo)],
    },
    spec: {
      replicas: foo.spec.replicas ?? 1,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: "nginx", image: "nginx:1.29" }] },
      },
    },
  };
}

/** Brings what the Foo decides to what it says, and leaves the rest to others. */
export function repair(deployment, foo) {
  if (foo.spec.replicas !== undefined) deployment.spec.replicas = foo.spec.replicas;
}
