//! Tests of the OpenAPI documents.

use serde_json::{Value, json};

use super::*;

fn deployments() -> ServedResource<'static> {
    ServedResource {
        group: "apps",
        version: "v1",
        kind: "Deployment",
        list_kind: "DeploymentList",
        plural: "deployments",
        namespaced: true,
        has_status: true,
        has_scale: true,
        create_only: false,
        crd_schema: None,
        is_custom: false,
    }
}

fn foos(schema: &Value) -> ServedResource<'_> {
    ServedResource {
        group: "samples.example.com",
        version: "v1",
        kind: "Foo",
        list_kind: "FooList",
        plural: "foos",
        has_scale: false,
        crd_schema: Some(schema),
        is_custom: true,
        ..deployments()
    }
}

fn parsed(document: &Document) -> Value {
    serde_json::from_slice(&document.body).expect("the document is JSON")
}

/// Asserts that all references in `schema` resolve within `document`.
fn assert_references_resolve(schema: &Value, document: &Value) {
    match schema {
        Value::Object(object) => {
            if let Some(target) = object.get("$ref").and_then(Value::as_str) {
                let pointer = target.trim_start_matches('#');
                assert!(document.pointer(pointer).is_some(), "{target} does not resolve");
            }
            object.values().for_each(|child| assert_references_resolve(child, document));
        }
        Value::Array(items) => items.iter().for_each(|child| assert_references_resolve(child, document)),
        _ => {}
    }
}

#[test]
fn v3_document_has_the_parts_that_kubectl_reads() {
    let document = parsed(&DocumentCache::new().v3("apps", "v1", &[deployments()]));
    assert_references_resolve(&document, &document);
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let gvk = json!({"group": "apps", "kind": "Deployment", "version": "v1"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], gvk);
    assert_eq!(patch["x-kubernetes-action"], "patch");
    for name in ["fieldValidation", "dryRun", "fieldManager", "force"] {
        let parameters = patch["parameters"].as_array().expect("parameters");
        let is_declared = |parameter: &Value| parameter["name"] == name && parameter["in"] == "query";
        assert!(parameters.iter().any(is_declared), "{name}");
    }
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
    let schema = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([gvk]));
    let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
    assert_eq!(spec["properties"]["containers"]["x-kubernetes-patch-merge-key"], "name");
    assert!(spec["properties"]["containers"]["description"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(
        document["components"]["schemas"].get("io.k8s.api.core.v1.Service").is_none(),
        "the document has only the types that it refers to"
    );
}

#[test]
fn custom_resources_have_the_schema_of_their_crd() {
    let schema = json!({"type": "object", "description": "A Foo", "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "description": "How many"}}}}});
    let document = parsed(&DocumentCache::new().v3("samples.example.com", "v1", &[foos(&schema)]));
    assert_references_resolve(&document, &document);
    let foo = &document["components"]["schemas"]["com.example.samples.v1.Foo"];
    assert_eq!(foo["properties"]["spec"]["properties"]["replicas"]["description"], "How many");
    assert!(foo["properties"]["metadata"]["allOf"].is_array());
    let patch =
        &document["paths"]["/apis/samples.example.com/v1/namespaces/{namespace}/foos/{name}"]["patch"];
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
    assert!(patch["requestBody"]["content"].get("application/apply-patch+yaml").is_some());
}

#[test]
fn documents_are_cached_until_their_resources_change() {
    let documents = DocumentCache::new();
    let (before, after) = (json!({"type": "object"}), json!({"type": "object", "description": "new"}));
    let first = documents.v3("samples.example.com", "v1", &[foos(&before)]);
    let again = documents.v3("samples.example.com", "v1", &[foos(&before)]);
    assert_eq!(first.body.as_ptr(), again.body.as_ptr(), "the document is built once");
    let changed = documents.v3("samples.example.com", "v1", &[foos(&after)]);
    assert_ne!(first.hash, changed.hash);
    assert_eq!(parsed(&changed)["components"]["schemas"]["com.example.samples.v1.Foo"]["description"], "new");
}

#[test]
fn index_lists_document_urls_with_their_hash() {
    let documents = DocumentCache::new();
    let index = documents.index([("apps", "v1", vec![deployments()]), ("", "v1", Vec::new())]);
    let hash = documents.v3("apps", "v1", &[deployments()]).hash;
    assert_eq!(
        index["paths"]["apis/apps/v1"]["serverRelativeURL"],
        format!("/openapi/v3/apis/apps/v1?hash={hash}")
    );
    assert!(index["paths"].get("api/v1").is_some());
}

#[test]
fn v2_document_describes_all_groups() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string", "nullable": true}}});
    let document = parsed(&DocumentCache::new().v2(&[deployments(), foos(&schema)]));
    assert_references_resolve(&document, &document);
    let text = document.to_string();
    assert!(!text.contains("#/components/"), "no v3 references");
    assert_eq!(document["swagger"], "2.0");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().expect("parameters");
    assert!(
        parameters
            .iter()
            .any(|parameter| parameter["name"] == "fieldValidation" && parameter["type"] == "string")
    );
    assert!(document["definitions"].get("com.example.samples.v1.Foo").is_some());
    assert!(
        document["definitions"]["com.example.samples.v1.Foo"]["properties"]["x"].get("nullable").is_none()
    );
}

#[test]
fn every_built_in_kind_has_a_document_without_dangling_references() {
    for kind in crate::schema::KINDS {
        let list_kind = format!("{}List", kind.kind);
        let served = ServedResource {
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            list_kind: &list_kind,
            plural: "things",
            ..deployments()
        };
        let document = parsed(&DocumentCache::new().v3(kind.group, kind.version, &[served]));
        assert_references_resolve(&document, &document);
    }
}
