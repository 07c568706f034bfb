"""The CustomResourceDefinition of Foo."""

_SPEC = {
    "type": "object",
    "required": ["deploymentName"],
    "properties": {
        "deploymentName": {"type": "string", "minLength": 1, "description": "The name of the Deployment."},
        "replicas": {
            "type": "integer",
            "minimum": 1,
            "maximum": 10,
            "description": "The number of replicas; 1 by default.",
        },
    },
}

_STATUS = {
    "type": "object",
    "properties": {
        "availableReplicas": {
            "type": "integer",
            "description": "The number of available replicas of the Deployment.",
        },
    },
}

FOO = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "foos.samplecontroller.k8s.io",
        # Required for groups below k8s.io; remove this line for a group of your own.
        "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
    },
    "spec": {
        "group": "samplecontroller.k8s.io",
        "names": {"kind": "Foo", "listKind": "FooList", "plural": "foos", "singular": "foo"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Deployment", "type": "string", "jsonPath": ".spec.deploymentName"},
                    {"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {"spec": _SPEC, "status": _STATUS},
                    },
                },
            },
        ],
    },
}
