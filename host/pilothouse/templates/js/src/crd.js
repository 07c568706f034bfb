/** What a Foo may say. The host applies this before it watches Foos, where that is granted. */
export const FOO_CRD = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: {
    name: "foos.samplecontroller.k8s.io",
    // The group *.k8s.io asks for this line; a group of your own does not.
    annotations: { "api-approved.kubernetes.io": "unapproved, experimental-only" },
  },
  spec: {
    group: "samplecontroller.k8s.io",
    names: { kind: "Foo", plural: "foos", singular: "foo" },
    scope: "Namespaced",
    versions: [
      {
        name: "v1alpha1",
        served: true,
        storage: true,
        subresources: { status: {} },
        additionalPrinterColumns: [
          { name: "Deployment", type: "string", jsonPath: ".spec.deploymentName" },
          { name: "Available", type: "integer", jsonPath: ".status.availableReplicas" },
        ],
        schema: {
          openAPIV3Schema: {
            type: "object",
            required: ["spec"],
            properties: {
              spec: {
                type: "object",
                required: ["deploymentName"],
                properties: {
                  deploymentName: { type: "string", minLength: 1, description: "The Deployment's name." },
                  replicas: {
                    type: "integer",
                    format: "int32",
                    minimum: 1,
                    maximum: 10,
                    description: "How many replicas it has; 1 when not given.",
                  },
                },
              },
              status: {
                type: "object",
                properties: {
                  availableReplicas: {
                    type: "integer",
                    format: "int32",
                    description: "How many replicas of the Deployment are available.",
                  },
                },
              },
            },
          },
        },
      },
    ],
  },
};
