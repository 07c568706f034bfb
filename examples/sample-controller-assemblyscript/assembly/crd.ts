/** The CustomResourceDefinition of Foo. The host applies it before it watches Foos, if the operator grants that. */
export const FOO_CRD = `{
  "apiVersion": "apiextensions.k8s.io/v1",
  "kind": "CustomResourceDefinition",
  "metadata": {
    "name": "foos.samplecontroller.k8s.io",
    "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"}
  },
  "spec": {
    "group": "samplecontroller.k8s.io",
    "names": {"kind": "Foo", "plural": "foos", "singular": "foo"},
    "scope": "Namespaced",
    "versions": [{
      "name": "v1alpha1",
      "served": true,
      "storage": true,
      "subresources": {"status": {}},
      "additionalPrinterColumns": [
        {"name": "Deployment", "type": "string", "jsonPath": ".spec.deploymentName"},
        {"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas"}
      ],
      "schema": {"openAPIV3Schema": {
        "type": "object",
        "required": ["spec"],
        "properties": {
          "spec": {
            "type": "object",
            "required": ["deploymentName"],
            "properties": {
              "deploymentName": {"type": "string", "minLength": 1, "description": "The name of the Deployment."},
              "replicas": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10, "description": "The number of replicas; 1 by default."}
            }
          },
          "status": {
            "type": "object",
            "properties": {"availableReplicas": {"type": "integer", "format": "int32", "description": "The number of available replicas of the Deployment."}}
          }
        }
      }}
    }]
  }
}`;
