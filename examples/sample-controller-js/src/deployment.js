import { owner } from "@pilothouse/sdk";

/**
 * What every Deployment runs. Try it: change this line, build again, and watch the new version of the plugin roll it out to every Foo.
 */
const IMAGE = "nginx:1.29";

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
        spec: { containers: [{ name: "nginx", image: IMAGE }] },
      },
    },
  };
}

/** Brings what the Foo decides to what it says, and leaves the rest to others. */
export function repair(deployment, foo) {
  if (foo.spec.replicas !== undefined) deployment.spec.replicas = foo.spec.replicas;
  for (const container of deployment.spec.template.spec.containers) {
    if (container.name === "nginx") container.image = IMAGE;
  }
}
