use serde_json::{Value, json};

use super::*;

fn deployments() -> Served<'static> {
    Served {
        group: "apps",
        version: "v1",
        kind: "Deployment",
        list_kind: "DeploymentList",
        plural: "deployments",
        namespaced: true,
        status: true,
        scale: true,
        create_only: false,
        custom: None,
        is_custom: false,
    }
}

fn foos(schema: &Value) -> Served<'_> {
    Served {
        group: "samples.example.com",
        version: "v1",
        kind: "Foo",
        list_kind: "FooList",
        plural: "foos",
        scale: false,
        custom: Some(schema),
        is_custom: true,
        ..deployments()
    }
}

fn parsed(document: &Document) -> Value {
    serde_json::from_slice(&document.body).expect("the document is JSON")
}

/// All references of a document lead somewhere.
fn check_references(schema: &Value, document: &Value) {
    match schema {
        Value::Object(object) => {
            if let Some(target) = object.get("$ref").and_then(Value::as_str) {
                let pointer = target.trim_start_matches('#');
                assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
            }
            object.values().for_each(|child| check_references(child, document));
        }
        Value::Array(items) => items.iter().for_each(|child| check_references(child, document)),
        _ => {}
    }
}

#[test]
fn the_v3_document_has_what_kubectl_looks_for() {
    let document = parsed(&Documents::new().v3("apps", "v1", &[deployments()]));
    check_references(&document, &document);
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let gvk = json!({"group": "apps", "kind": "Deployment", "version": "v1"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], gvk);
    assert_eq!(patch["x-kubernetes-action"], "patch");
    for name in ["fieldValidation", "dryRun", "fieldManager", "force"] {
        let parameters = patch["parameters"].as_array().expect("parameters");
        assert!(parameters.iter().any(|one| one["name"] == name && one["in"] == "query"), "{name}");
    }
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
    let schema = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([gvk]));
    let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
    assert_eq!(spec["properties"]["containers"]["x-kubernetes-patch-merge-key"], "name");
    assert!(spec["properties"]["containers"]["description"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(
        document["components"]["schemas"].get("io.k8s.api.core.v1.Service").is_none(),
        "only what is needed"
    );
}

#[test]
fn custom_resources_are_described_by_their_crd() {
    let schema = json!({"type": "object", "description": "A Foo", "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "description": "How many"}}}}});
    let document = parsed(&Documents::new().v3("samples.example.com", "v1", &[foos(&schema)]));
    check_references(&document, &document);
    let foo = &document["components"]["schemas"]["com.example.samples.v1.Foo"];
    assert_eq!(foo["properties"]["spec"]["properties"]["replicas"]["description"], "How many");
    assert!(foo["properties"]["metadata"]["allOf"].is_array());
    let patch =
        &document["paths"]["/apis/samples.example.com/v1/namespaces/{namespace}/foos/{name}"]["patch"];
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
    assert!(patch["requestBody"]["content"].get("application/apply-patch+yaml").is_some());
}

#[test]
fn documents_are_kept_until_what_they_describe_changes() {
    let documents = Documents::new();
    let (one, other) = (json!({"type": "object"}), json!({"type": "object", "description": "new"}));
    let first = documents.v3("samples.example.com", "v1", &[foos(&one)]);
    let again = documents.v3("samples.example.com", "v1", &[foos(&one)]);
    assert_eq!(first.body.as_ptr(), again.body.as_ptr(), "the same bytes, not built twice");
    let changed = documents.v3("samples.example.com", "v1", &[foos(&other)]);
    assert_ne!(first.hash, changed.hash);
    assert_eq!(parsed(&changed)["components"]["schemas"]["com.example.samples.v1.Foo"]["description"], "new");
}

#[test]
fn the_index_points_to_documents_by_their_hash() {
    let documents = Documents::new();
    let index = documents.index([("apps", "v1", vec![deployments()]), ("", "v1", Vec::new())]);
    let hash = documents.v3("apps", "v1", &[deployments()]).hash;
    assert_eq!(
        index["paths"]["apis/apps/v1"]["serverRelativeURL"],
        format!("/openapi/v3/apis/apps/v1?hash={hash}")
    );
    assert!(index["paths"].get("api/v1").is_some());
}

#[test]
fn the_v2_document_describes_everything_at_once() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string", "nullable": true}}});
    let document = parsed(&Documents::new().v2(&[deployments(), foos(&schema)]));
    check_references(&document, &document);
    let text = document.to_string();
    assert!(!text.contains("#/components/"), "no v3 references");
    assert_eq!(document["swagger"], "2.0");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().expect("parameters");
    assert!(parameters.iter().any(|one| one["name"] == "fieldValidation" && one["type"] == "string"));
    assert!(document["definitions"].get("com.example.samples.v1.Foo").is_some());
    assert!(
        document["definitions"]["com.example.samples.v1.Foo"]["properties"]["x"].get("nullable").is_none()
    );
}

#[test]
fn every_built_in_kind_can_be_published() {
    for kind in crate::schema::KINDS {
        let list_kind = format!("{}List", kind.kind);
        let served = Served {
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            list_kind: &list_kind,
            plural: "things",
            ..deployments()
        };
        let document = parsed(&Documents::new().v3(kind.group, kind.version, &[served]));
        check_references(&document, &document);
    }
}
