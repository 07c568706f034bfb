//! Deletions of objects and collections.

use serde_json::json;

use crate::api::{Api, core, version};

#[tokio::test]
async fn object_is_removed_with_its_last_finalizer() {
    let api = Api::new();
    let body = json!({"metadata": {"name": "a", "finalizers": ["example.com/x", "example.com/y"]}});
    let created = api.post(&core("configmaps"), &body).await.ok();
    let mut watch = api.watch(&core(&format!("configmaps?resourceVersion={}", version(&created)))).await;
    let deleting = api.delete(&core("configmaps/a"), &json!(null)).await.ok();
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = api.delete(&core("configmaps/a"), &json!(null)).await.ok();
    assert_eq!(version(&again), version(&deleting), "a second deletion changes nothing");
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/z"]}});
    api.merge(&core("configmaps/a"), &more).await.fails(422, "Invalid");
    api.merge(&core("configmaps/a"), &json!({"metadata": {"finalizers": ["example.com/y"]}})).await.ok();
    api.merge(&core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await.ok();
    api.get(&core("configmaps/a")).await.fails(404, "NotFound");
    for expected in ["MODIFIED a", "MODIFIED a", "DELETED a"] {
        assert_eq!(watch.next_summary().await, expected);
    }
}

#[tokio::test]
async fn deletion_checks_preconditions_and_returns_a_status() {
    let api = Api::new();
    let created = api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    let wrong = json!({"preconditions": {"uid": "another"}});
    let conflict = api.delete(&core("configmaps/a"), &wrong).await.fails(409, "Conflict");
    assert!(
        conflict["message"]
            .as_str()
            .is_some_and(|text| text.contains("the UID in the precondition (another)"))
    );
    api.delete(&core("configmaps/a"), &json!({"preconditions": {"resourceVersion": "1"}}))
        .await
        .fails(409, "Conflict");
    let right = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": created["metadata"]["uid"]}});
    let status = api.delete(&core("configmaps/a"), &right).await.ok();
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(status["details"]["uid"], created["metadata"]["uid"]);
    api.delete(&core("configmaps/a"), &json!(null)).await.fails(404, "NotFound");
}

#[tokio::test]
async fn delete_collection_honours_the_selector() {
    let api = Api::new();
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1")] {
        api.post(&core("configmaps"), &json!({"metadata": {"name": name, "labels": {"l": label}}}))
            .await
            .ok();
    }
    api.delete(&core("configmaps?labelSelector=l%3D1"), &json!(null)).await.ok();
    assert_eq!(crate::api::names(&api.get(&core("configmaps")).await.ok()), ["b"]);
}

#[tokio::test]
async fn a_dry_run_of_a_deletion_that_removes_finalizers_answers_with_an_empty_object() {
    let api = Api::new();
    let body = json!({"metadata": {"name": "a", "finalizers": ["foregroundDeletion"]}});
    api.post(&core("configmaps"), &body).await.ok();
    let options = json!({"propagationPolicy": "Background", "dryRun": ["All"]});
    let shown = api.delete(&core("configmaps/a"), &options).await.ok();
    assert_eq!(shown, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}));
    let kept = api.get(&core("configmaps/a")).await.ok();
    assert_eq!(kept["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let options = json!({"propagationPolicy": "Background"});
    let status = api.delete(&core("configmaps/a"), &options).await.ok();
    assert_eq!(status["kind"], "Status");
}
