//! CRDs: when they are valid, established and deleted, and what of them the server shows.

use serde_json::{Value, json};

use crate::api::{Api, names};
use crate::{CRDS, FOOS, crd, foo, version, with_crd};

#[tokio::test]
async fn crd_is_established_and_served_once_created() {
    let api = Api::new();
    api.get(FOOS).await.is_page_not_found();
    let created = api.post(CRDS, &crd()).await.ok();
    let conditions = created["status"]["conditions"].as_array().expect("conditions");
    for kind in ["NamesAccepted", "Established"] {
        assert!(conditions.iter().any(|c| c["type"] == kind && c["status"] == "True"), "{conditions:?}");
    }
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(created["spec"]["names"]["listKind"], "FooList");
    assert_eq!(names(&api.get(FOOS).await.ok()), [""; 0]);
    let resources = api.get("/apis/example.com/v1").await.ok();
    let served: Vec<&str> = resources["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(served, ["foos", "foos/status", "foos/scale"]);
}

#[tokio::test]
async fn deleting_a_crd_deletes_its_objects_and_ends_their_watches() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let mut watch = api.watch(FOOS).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    assert_eq!(watch.next_summary().await, "DELETED a");
    assert_eq!(watch.next().await, None);
    api.get(FOOS).await.is_page_not_found();
    api.get(&format!("{CRDS}/foos.example.com")).await.fails(404, "NotFound");
    api.post(CRDS, &crd()).await.ok();
    assert_eq!(names(&api.get(FOOS).await.ok()), [""; 0], "a new CRD starts with nothing");
}

#[tokio::test]
async fn crd_deletion_waits_for_objects_with_finalizers() {
    let api = with_crd().await;
    let mut held = foo("a", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(FOOS, &held).await.ok();
    let deleting = api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    api.post(FOOS, &foo("b", &json!({}))).await.fails(405, "MethodNotAllowed");
    assert!(api.get(&format!("{FOOS}/a")).await.ok()["metadata"]["deletionTimestamp"].is_string());
    api.merge(&format!("{FOOS}/a"), &json!({"metadata": {"finalizers": null}})).await.ok();
    api.get(&format!("{CRDS}/foos.example.com")).await.fails(404, "NotFound");
    api.get(FOOS).await.is_page_not_found();
}

#[tokio::test]
async fn invalid_crd_is_rejected_with_all_causes() {
    let api = Api::new();
    let mut bad = crd();
    bad["metadata"]["name"] = json!("other.example.com");
    bad["spec"]["versions"][0]["storage"] = json!(false);
    bad["spec"]["versions"][1]["schema"] = json!(null);
    let refused = api.post(CRDS, &bad).await.fails(422, "Invalid");
    let fields: Vec<&str> = refused["details"]["causes"]
        .as_array()
        .expect("causes")
        .iter()
        .filter_map(|c| c["field"].as_str())
        .collect();
    for field in ["metadata.name", "spec.versions", "spec.versions[1].schema.openAPIV3Schema"] {
        assert!(fields.contains(&field), "{field} is not among {fields:?}");
    }
}

#[tokio::test]
async fn crd_cannot_change_scope_or_drop_a_stored_version() {
    let api = with_crd().await;
    let path = format!("{CRDS}/foos.example.com");
    api.merge(&path, &json!({"spec": {"scope": "Cluster"}})).await.fails(422, "Invalid");
    let only_second = json!({"spec": {"versions": [version("v2", true)]}});
    let refused = api.merge(&path, &only_second).await.fails(422, "Invalid");
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("missing from spec.versions")),
        "{refused}"
    );
    let third =
        json!({"spec": {"versions": [version("v1", false), version("v2", false), version("v3", true)]}});
    let changed = api.merge(&path, &third).await.ok();
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v3"]));
    api.get("/apis/example.com/v3/foos").await.ok();
}

#[tokio::test]
async fn crd_with_conflicting_names_is_not_established() {
    let api = with_crd().await;
    let mut conflicting = crd();
    conflicting["metadata"]["name"] = json!("foozes.example.com");
    conflicting["spec"]["names"] = json!({"plural": "foozes", "kind": "Foo"});
    let created = api.post(CRDS, &conflicting).await.ok();
    let conditions = created["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().any(|c| c["type"] == "NamesAccepted" && c["reason"] == "ListKindConflict"));
    assert!(conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "False"));
    api.get("/apis/example.com/v1/foozes").await.fails(404, "NotFound");
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    api.get("/apis/example.com/v1/foozes").await.ok();
}

#[tokio::test]
async fn missing_crd_field_is_reported_once() {
    let api = Api::new();
    for field in ["group", "scope", "names/plural", "names/kind"] {
        let mut body = crd();
        let pointer = format!("/spec/{field}");
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        body.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object").remove(name);
        let refused = api.post(CRDS, &body).await.fails(422, "Invalid");
        let at = format!("spec.{}", field.replace('/', "."));
        let causes = refused["details"]["causes"].as_array().expect("causes").iter();
        let matching =
            causes.filter(|cause| cause["field"] == at.as_str() && cause["reason"] == "FieldValueRequired");
        assert_eq!(matching.count(), 1, "{at}: {refused:#}");
    }
}

#[tokio::test]
async fn watch_from_before_a_crd_was_recreated_gets_410() {
    let api = with_crd().await;
    let created = api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let old = crate::api::version(&created);
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    let gone = api.get(&format!("{CRDS}/foos.example.com")).await;
    assert_eq!(gone.code, 404, "{:#}", gone.body);
    api.post(CRDS, &crd()).await.ok();
    let event = api.watch(&format!("{FOOS}?resourceVersion={old}")).await.next().await.expect("an event");
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410)),
        "the deletion of a is not in the history"
    );
}

#[tokio::test]
async fn openapi_has_the_selectable_fields_of_the_crd() {
    let api = with_crd().await;
    let root = FOOS.split("/namespaces/").next().expect("the path of the group");
    let document = api.get(&format!("/openapi/v3{root}")).await.ok();
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for suffix in [".Foo", ".FooList"] {
        let (_, schema) = schemas.iter().find(|(name, _)| name.ends_with(suffix)).expect("a schema");
        assert_eq!(schema["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.color"}]));
    }
}

#[tokio::test]
async fn crd_without_a_served_version_is_accepted_and_its_objects_end_with_it() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let mut unserved = api.get(&format!("{CRDS}/foos.example.com")).await.ok();
    for index in [0, 1] {
        unserved["spec"]["versions"][index]["served"] = json!(false);
    }
    api.put(&format!("{CRDS}/foos.example.com"), &unserved).await.ok();
    api.get(FOOS).await.is_page_not_found();
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    api.post(CRDS, &crd()).await.ok();
    assert_eq!(names(&api.get(FOOS).await.ok()), [""; 0]);
}

#[tokio::test]
async fn crd_of_a_protected_group_has_the_condition_of_its_approval() {
    let api = Api::new();
    let mut protected = crd();
    protected["metadata"]["name"] = json!("foos.example.k8s.io");
    protected["spec"]["group"] = json!("example.k8s.io");
    let refused = api.post(CRDS, &protected).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "metadata.annotations[api-approved.kubernetes.io]");
    protected["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, for a test"});
    let created = api.post(CRDS, &protected).await.ok();
    let condition = &created["status"]["conditions"][2];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("KubernetesAPIApprovalPolicyConformant"), &json!("False"), &json!("UnapprovedAnnotation"))
    );
}

#[tokio::test]
async fn crd_with_a_malformed_ca_bundle_is_not_established() {
    let api = Api::new();
    let mut crd = crd();
    let conversion = |bundle: &str| {
        json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": "https://127.0.0.1:1/convert", "caBundle": bundle},
                "conversionReviewVersions": ["v1"],
            },
        })
    };
    crd["spec"]["conversion"] = conversion("Cg==");
    let created = api.post(CRDS, &crd).await.ok();
    let established = |crd: &Value| {
        let conditions = crd["status"]["conditions"].as_array().expect("conditions").clone();
        let found = conditions.into_iter().find(|condition| condition["type"] == "Established");
        let found = found.expect("a condition");
        (found["status"].clone(), found["reason"].clone())
    };
    assert_eq!(established(&created), (json!("False"), json!("InvalidCABundle")));
    api.get(FOOS).await.is_page_not_found();
    let path = format!("{CRDS}/foos.example.com");
    let repaired = api.merge(&path, &json!({"spec": {"conversion": conversion("")}})).await.ok();
    assert_eq!(established(&repaired), (json!("True"), json!("InitialNamesAccepted")));
    let refused = api.merge(&path, &json!({"spec": {"conversion": conversion("Cg==")}})).await;
    let refused = refused.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.conversion.webhookClientConfig.caBundle");
}

#[tokio::test]
async fn default_warning_of_a_deprecated_version_names_the_newest_one() {
    let api = Api::new();
    let mut crd = crd();
    let deprecated = |name: &str| {
        let mut version = version(name, false);
        version["deprecated"] = json!(true);
        version
    };
    let mut unserved = version("v3", false);
    unserved["served"] = json!(false);
    crd["spec"]["versions"] = json!([
        deprecated("v1alpha1"),
        version("v1beta1", false),
        version("v1beta2", true),
        deprecated("v2"),
        unserved,
    ]);
    api.post(CRDS, &crd).await.ok();
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/foos");
    let old = api.get(&path("v1alpha1")).await.warnings;
    assert_eq!(old, [r#"299 - "example.com/v1alpha1 Foo is deprecated; use example.com/v1beta2 Foo""#]);
    let new = api.get(&path("v2")).await.warnings;
    assert_eq!(new, [r#"299 - "example.com/v2 Foo is deprecated""#]);
}

#[tokio::test]
async fn watches_end_when_the_definition_of_their_resource_changes() {
    let api = with_crd().await;
    let mut watch = api.watch(FOOS).await;
    let path = format!("{CRDS}/foos.example.com");
    api.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
    api.merge(&path, &json!({"spec": {"names": {"categories": ["all"]}}})).await.ok();
    assert_eq!(watch.next().await, None);
}
