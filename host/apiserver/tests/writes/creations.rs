//! New objects.

use serde_json::{Value, json};

use crate::api::{Api, core};

#[tokio::test]
async fn server_sets_the_metadata_of_a_new_object() {
    let api = Api::new();
    let sent = json!({"metadata": {"generateName": "x-", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}});
    let created = api.post(&core("configmaps"), &sent).await;
    assert_eq!(created.code, 201);
    let metadata = &created.body["metadata"];
    assert!(metadata["name"].as_str().is_some_and(|name| name.len() == 7 && name.starts_with("x-")));
    assert_ne!(metadata["uid"], "mine");
    assert_ne!(metadata["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!(metadata["namespace"], "default");
}

#[tokio::test]
async fn invalid_creations_are_rejected_as_in_kubernetes() {
    let api = Api::new();
    let body = json!({"metadata": {"name": "a"}});
    api.post(&core("configmaps"), &body).await.ok();
    let taken = api.post(&core("configmaps"), &body).await.fails(409, "AlreadyExists");
    assert_eq!(taken["message"], "configmaps \"a\" already exists");
    let nowhere = api.post("/api/v1/namespaces/nowhere/configmaps", &body).await.fails(404, "NotFound");
    assert_eq!(nowhere["message"], "namespaces \"nowhere\" not found");
    let bad = api
        .post(&core("configmaps"), &json!({"metadata": {"name": "Not_Valid"}}))
        .await
        .fails(422, "Invalid");
    assert_eq!(bad["details"]["causes"][0]["field"], "metadata.name");
    api.post(&core("configmaps"), &json!({})).await.fails(422, "Invalid");
    let elsewhere = json!({"metadata": {"name": "b", "namespace": "other"}});
    api.post(&core("configmaps"), &elsewhere).await.fails(400, "BadRequest");
    let versioned =
        api.post(&core("configmaps"), &json!({"metadata": {"name": "b", "resourceVersion": "7"}})).await;
    assert_eq!(versioned.body["message"], "resourceVersion should not be set on objects to be created");
    let invalid = json!({"metadata": {"name": "Not_Valid", "resourceVersion": "7"}});
    api.post(&core("configmaps"), &invalid).await.fails(422, "Invalid");
    let any = json!({"metadata": {"name": "any", "resourceVersion": "0"}});
    let created = api.post(&core("configmaps"), &any).await.ok();
    assert_ne!(created["metadata"]["resourceVersion"], "0");
    let kind = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "b"}});
    api.post(&core("configmaps"), &kind).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn a_dry_run_creates_an_object_with_a_resource_version() {
    let api = Api::new();
    let body = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    let created = api.post(&core("configmaps?dryRun=All"), &body).await;
    assert_eq!((created.code, &created.body["metadata"]["resourceVersion"]), (201, &json!("7")));
    api.get(&core("configmaps/a")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn dry_run_changes_nothing() {
    let api = Api::new();
    let before = api.server.revision();
    let body = json!({"metadata": {"name": "a"}, "data": {"x": "1"}});
    let shown = api.post(&core("configmaps?dryRun=All"), &body).await.ok();
    assert!(shown["metadata"]["uid"].is_string() && shown["metadata"].get("resourceVersion").is_none());
    api.get(&core("configmaps/a")).await.fails(404, "NotFound");
    assert_eq!(api.server.revision(), before);
    api.post(&core("configmaps"), &body).await.ok();
    let shown = api.merge(&core("configmaps/a?dryRun=All"), &json!({"data": {"x": "2"}})).await.ok();
    assert_eq!(shown["data"]["x"], "2");
    api.delete(&core("configmaps/a?dryRun=All"), &json!(null)).await.ok();
    assert_eq!(api.get(&core("configmaps/a")).await.ok()["data"]["x"], "1");
    api.post(&core("configmaps?dryRun=Some"), &body).await.fails(422, "Invalid");
}

#[tokio::test]
async fn equal_owner_references_are_stored_once_with_a_warning() {
    let api = Api::new();
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": name});
    let map = |owners: Value| json!({"metadata": {"name": "a", "ownerReferences": owners}});
    let owners = |object: &Value| object["metadata"]["ownerReferences"].clone();
    let once = json!([owner("x")]);
    let created = api.post(&core("configmaps"), &map(json!([owner("x"), owner("x")]))).await;
    assert_eq!(created.warnings.len(), 1, "{created:?}");
    assert!(created.warnings[0].contains("contains duplicate entries; API server dedups"), "{created:?}");
    assert!(created.warnings[0].contains("duplicate UID(s) observed: x"), "{created:?}");
    assert_eq!(owners(&created.ok()), once);
    let updated = api.put(&core("configmaps/a"), &map(json!([owner("x"), owner("x")]))).await;
    assert_eq!((updated.warnings.len(), owners(&updated.body)), (1, once.clone()));
    let add = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner("x")}]);
    let patched = api.patch("json-patch+json", &core("configmaps/a"), &add).await;
    assert!(
        patched.warnings[0].contains("duplicate entries after mutating admission happens"),
        "{patched:?}"
    );
    assert_eq!(owners(&patched.ok()), once);
    let two = json!([owner("x"), owner("y")]);
    let different = api.put(&core("configmaps/a"), &map(two.clone())).await;
    assert_eq!((different.warnings.len(), owners(&different.body)), (0, two));
}
