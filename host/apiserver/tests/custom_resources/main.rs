//! CRDs and custom resources.

#[path = "../api/mod.rs"]
mod api;
mod definitions;
mod limits;
mod objects;
mod schemas;

use serde_json::{Value, json};

use api::Api;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const FOOS: &str = "/apis/example.com/v1/namespaces/default/foos";

fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "subresources": {
            "status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.replicas"}],
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "replicas": {"type": "integer", "minimum": 0, "default": 1}, "color": {"type": "string"},
                    },
                },
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            },
        }},
    })
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

fn foo(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

async fn with_crd() -> Api {
    let api = Api::new();
    api.post(CRDS, &crd()).await.ok();
    api
}
