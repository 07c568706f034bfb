//! Defaults, pruning and versions, as the schemas of a CRD say.

use serde_json::{Value, json};

use crate::api::Api;
use crate::{CRDS, FOOS, crd, foo, version, with_crd};

#[tokio::test]
async fn custom_resources_are_defaulted_pruned_and_validated() {
    let api = with_crd().await;
    let created = api.post(FOOS, &foo("a", &json!({"unknown": 1}))).await;
    assert_eq!(created.warnings, ["299 - \"unknown field \\\"spec.unknown\\\"\""]);
    assert_eq!(created.ok()["spec"], json!({"replicas": 1}));
    let invalid = api.post(FOOS, &foo("b", &json!({"replicas": -1}))).await.fails(422, "Invalid");
    assert_eq!(invalid["details"]["causes"][0]["field"], "spec.replicas");
    assert!(
        invalid["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("Foo.example.com \"b\" is invalid: "))
    );
    let untyped = json!({"metadata": {"name": "c"}});
    api.post(FOOS, &untyped).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn all_versions_serve_the_same_objects() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let newer = api.get("/apis/example.com/v2/namespaces/default/foos/a").await.ok();
    assert_eq!(newer["apiVersion"], "example.com/v2");
    let mut watch = api.watch("/apis/example.com/v2/foos").await;
    assert_eq!(watch.next().await.expect("an event")["object"]["apiVersion"], "example.com/v2");
    let groups = api.get("/apis/example.com").await.ok();
    assert_eq!(groups["preferredVersion"]["version"], "v2");
}

/// Replaces the fields of `spec` in the schema of both versions.
async fn set_fields(api: &Api, fields: [&Value; 2]) {
    let path = format!("{CRDS}/foos.example.com");
    let mut crd = api.get(&path).await.ok();
    for (position, fields) in fields.into_iter().enumerate() {
        crd["spec"]["versions"][position]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
            fields.clone();
        crd["spec"]["versions"][position]["selectableFields"] = json!([]);
        crd["spec"]["versions"][position]["subresources"] = json!({"status": {}});
    }
    api.put(&path, &crd).await.ok();
}

#[tokio::test]
async fn objects_that_are_older_than_the_schema_are_pruned_and_defaulted_when_read() {
    let api = with_crd().await;
    let with_color = json!({"replicas": {"type": "integer"}, "color": {"type": "string"}});
    let without = json!({"replicas": {"type": "integer"}, "size": {"type": "string", "default": "small"}});
    api.post(FOOS, &foo("a", &json!({"replicas": 2, "color": "red"}))).await.ok();
    let path = format!("{FOOS}/a");
    let before = api.get(&path).await.ok();
    let pruned = json!({"replicas": 2, "size": "small"});
    set_fields(&api, [&without, &without]).await;
    assert_eq!(api.get(&path).await.ok()["spec"], pruned);
    assert_eq!(api.get(FOOS).await.ok()["items"][0]["spec"], pruned);
    let mut watch = api.watch("/apis/example.com/v1/foos").await;
    assert_eq!(watch.next().await.expect("an event")["object"]["spec"], pruned);

    // A read does not change what is stored.
    set_fields(&api, [&with_color, &with_color]).await;
    let again = api.get(&path).await.ok();
    assert_eq!(again["spec"], json!({"replicas": 2, "color": "red"}));
    assert_eq!(again["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);

    // A write does, also one without a change.
    set_fields(&api, [&without, &without]).await;
    let written = api.merge(&path, &json!({})).await.ok();
    assert_ne!(written["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(
        api.merge(&path, &json!({})).await.ok()["metadata"],
        written["metadata"],
        "nothing is outdated"
    );
    set_fields(&api, [&with_color, &with_color]).await;
    assert_eq!(api.get(&path).await.ok()["spec"], json!({"replicas": 2}));
}

#[tokio::test]
async fn write_without_a_change_stores_an_object_in_the_new_storage_version_once() {
    let api = with_crd().await;
    let before = api.post(FOOS, &foo("a", &json!({"replicas": 2}))).await.ok();
    let crd_path = format!("{CRDS}/foos.example.com");
    let mut crd = api.get(&crd_path).await.ok();
    for version in crd["spec"]["versions"].as_array_mut().expect("versions") {
        let is_stored = version["storage"] == true;
        version["storage"] = (!is_stored).into();
    }
    api.put(&crd_path, &crd).await.ok();
    let path = format!("{FOOS}/a");
    let read = api.get(&path).await.ok();
    assert_eq!(read["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    let written = api.merge(&path, &json!({})).await.ok();
    assert_ne!(written["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(written["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(api.merge(&path, &json!({})).await.ok()["metadata"], written["metadata"]);
}

#[tokio::test]
async fn a_field_that_the_storage_version_lacks_is_not_stored() {
    let api = with_crd().await;
    let (storage, served) = (
        json!({"replicas": {"type": "integer", "default": 1}, "old": {"type": "string"}}),
        json!({"replicas": {"type": "integer"}, "color": {"type": "string"}}),
    );
    set_fields(&api, [&storage, &served]).await;
    let mut object = foo("a", &json!({"color": "red"}));
    object["apiVersion"] = json!("example.com/v2");
    let created = api.post("/apis/example.com/v2/namespaces/default/foos", &object).await.ok();
    assert_eq!(created["spec"], json!({"replicas": 1}));
    api.merge(&format!("{FOOS}/a"), &json!({"spec": {"old": "x"}})).await.ok();
    let read = api.get("/apis/example.com/v2/namespaces/default/foos/a").await.ok();
    assert_eq!(read["spec"], json!({"replicas": 1}), "the served version has no such field");
    assert_eq!(api.get(&format!("{FOOS}/a")).await.ok()["spec"], json!({"replicas": 1, "old": "x"}));
}

#[tokio::test]
async fn default_of_the_status_is_set_on_a_new_object() {
    let api = Api::new();
    let mut crd = crd();
    let status = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    status["default"] = json!({"replicas": 7});
    api.post(CRDS, &crd).await.ok();
    let mut sent = foo("a", &json!({}));
    sent["status"] = json!({"replicas": 1});
    let created = api.post(FOOS, &sent).await.ok();
    assert_eq!(created["status"], json!({"replicas": 7}));
    assert!(!created["metadata"]["managedFields"].to_string().contains("f:status"), "{created}");
}

#[tokio::test]
async fn apply_fails_while_a_manager_has_a_version_without_a_field_of_the_object() {
    let api = Api::new();
    let mut definition = crd();
    definition["spec"]["versions"] = json!([version("v1", true)]);
    api.post(CRDS, &definition).await.ok();
    let path =
        |version: &str| format!("/apis/example.com/{version}/namespaces/default/foos/a?fieldManager=old");
    let config = |version: &str| {
        json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Foo", "metadata": {"name": "a"}, "spec": {"color": "red"}
        })
    };
    api.apply(&path("v1"), &config("v1")).await.ok();
    let mut newer = version("v2", true);
    newer["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] =
        json!({"type": "string", "default": "small"});
    let mut older = version("v1", false);
    older["served"] = json!(false);
    let versions = json!({"spec": {"versions": [older, newer]}});
    api.merge(&format!("{CRDS}/foos.example.com"), &versions).await.ok();
    let refused = api.apply(&path("v2"), &config("v2")).await;
    assert_eq!(
        (refused.code, &refused.body["message"]),
        (500, &json!(".spec.size: field not declared in schema"))
    );
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let updated = api.merge(&path("v2"), &labelled).await.ok();
    assert_eq!(updated["metadata"].get("managedFields"), None, "nothing else can express the fields");
    api.apply(&path("v2"), &config("v2")).await.ok();
}

#[tokio::test]
async fn applied_null_is_refused_unless_the_schema_allows_it() {
    let api = Api::new();
    let mut crd = crd();
    let inner = |nullable: bool| json!({"type": "object", "nullable": nullable, "properties": {"a": {"type": "string"}}});
    let with_default = json!({"type": "string", "default": "d"});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({"strict": inner(false), "nullable": inner(true), "defaulted": with_default});
    api.post(CRDS, &crd).await.ok();
    let path = format!("{FOOS}/a?fieldManager=m");
    let with = |spec: Value| foo("a", &spec);
    for field in ["strict", "nullable"] {
        api.apply(&path, &with(json!({(field): {"a": "1"}}))).await.ok();
    }
    let refused = api.apply(&path, &with(json!({"strict": null}))).await.fails(422, "Invalid");
    let message = refused["message"].as_str().expect("text");
    assert!(message.contains(r#"spec.strict in body must be of type object: "null""#), "{message}");
    let applied = api.apply(&path, &with(json!({"nullable": null, "defaulted": null}))).await.ok();
    assert_eq!(applied["spec"], json!({"nullable": null, "defaulted": "d"}));
    let new = api.apply(&format!("{FOOS}/b?fieldManager=m"), &foo("b", &json!({"strict": null}))).await;
    new.fails(422, "Invalid");
    // In contrast to that of an apply, the null of another write counts as absent.
    let created = api.post(FOOS, &foo("c", &json!({"strict": null}))).await.ok();
    assert_eq!(created["spec"], json!({"defaulted": "d"}));
}

#[tokio::test]
async fn empty_list_as_a_default_is_kept() {
    let api = Api::new();
    let mut crd = crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({
        "list": {"type": "array", "items": {"type": "string"}, "default": []},
    });
    api.post(CRDS, &crd).await.ok();
    assert_eq!(api.post(FOOS, &foo("a", &json!({}))).await.ok()["spec"], json!({"list": []}));
}
