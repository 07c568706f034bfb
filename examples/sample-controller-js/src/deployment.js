import { owner } from "@pilothouse/sdk";

/** The image that every Deployment runs. Change it and build again: the new version of the plugin rolls it out to every Foo. */
const IMAGE = "nginx:1.29";

/** Returns the Deployment to create for a Foo. */
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

/** Sets the fields that the Foo determines, and leaves the others as they are. */
export function setDesiredState(deployment, foo) {
  if (foo.spec.replicas !== undefined) deployment.spec.replicas = foo.spec.replicas;
  for (const container of deployment.spec.template.spec.containers) {
    if (container.name === "nginx") container.image = IMAGE;
  }
}
