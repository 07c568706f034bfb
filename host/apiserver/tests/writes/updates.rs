//! Updates of objects and subresources.

use serde_json::{Value, json};

use crate::api::{Api, apps, core, version};
use crate::deployment;

#[tokio::test]
async fn update_with_a_stale_resource_version_conflicts() {
    let api = Api::new();
    let created = api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    let mut first = created.clone();
    first["data"] = json!({"x": "1"});
    api.put(&core("configmaps/a"), &first).await.ok();
    first["data"] = json!({"x": "2"});
    let conflict = api.put(&core("configmaps/a"), &first).await.fails(409, "Conflict");
    assert_eq!(
        conflict["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
    let unconditional = json!({"metadata": {"name": "a"}, "data": {"x": "3"}});
    assert_eq!(api.put(&core("configmaps/a"), &unconditional).await.ok()["data"]["x"], "3");
    let other = json!({"metadata": {"name": "a", "uid": "another"}});
    api.put(&core("configmaps/a"), &other).await.fails(409, "Conflict");
    api.put(&core("configmaps/none"), &json!({"metadata": {"name": "none"}})).await.fails(404, "NotFound");
    api.put(&core("configmaps/a"), &json!({"metadata": {"name": "b"}})).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn update_without_changes_keeps_the_resource_version() {
    let api = Api::new();
    let created =
        api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await.ok();
    let again = api.put(&core("configmaps/a"), &created).await.ok();
    assert_eq!(version(&again), version(&created));
    let patched = api.merge(&core("configmaps/a"), &json!({"data": {"x": "1"}})).await.ok();
    assert_eq!(version(&patched), version(&created));
}

#[tokio::test]
async fn generation_increments_only_with_the_specification() {
    let api = Api::new();
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    let created = api.post(&apps("deployments"), &deployment("d", 1)).await.ok();
    assert_eq!(generation(&created), Some(1));
    let labelled = api.merge(&apps("deployments/d"), &json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    assert_eq!(generation(&labelled), Some(1));
    let status = json!({"status": {"replicas": 1}});
    assert_eq!(generation(&api.merge(&apps("deployments/d/status"), &status).await.ok()), Some(1));
    let scaled = api.merge(&apps("deployments/d"), &json!({"spec": {"replicas": 2}})).await.ok();
    assert_eq!(generation(&scaled), Some(2));
}

#[tokio::test]
async fn specification_and_status_are_updated_separately() {
    let api = Api::new();
    api.post(&apps("deployments"), &deployment("d", 1)).await.ok();
    let both = json!({"spec": {"replicas": 5}, "status": {"replicas": 7}});
    let main = api.merge(&apps("deployments/d"), &both).await.ok();
    assert_eq!((&main["spec"]["replicas"], main["status"].get("replicas")), (&json!(5), None));
    let both =
        json!({"spec": {"replicas": 9}, "status": {"replicas": 7}, "metadata": {"labels": {"no": "x"}}});
    let status = api.merge(&apps("deployments/d/status"), &both).await.ok();
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(5), &json!(7)));
    assert_eq!(status["metadata"].get("labels"), None);
}

#[tokio::test]
async fn scale_reads_and_writes_replicas() {
    let api = Api::new();
    api.post(&apps("deployments"), &deployment("d", 3)).await.ok();
    let mut scale = api.get(&apps("deployments/d/scale")).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(3), &json!("a=b")));
    scale["spec"]["replicas"] = json!(4);
    api.put(&apps("deployments/d/scale"), &scale).await.ok();
    let deployment = api.get(&apps("deployments/d")).await.ok();
    assert_eq!(
        (&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]),
        (&json!(4), &json!(2))
    );
    scale["spec"]["replicas"] = json!(5);
    api.put(&apps("deployments/d/scale"), &scale).await.fails(409, "Conflict");
    let patched = api.merge(&apps("deployments/d/scale"), &json!({"spec": {"replicas": 6}})).await.ok();
    assert_eq!(patched["spec"]["replicas"], 6);
    api.merge(&apps("deployments/d/scale"), &json!({"spec": {"replicas": -1}})).await.fails(422, "Invalid");
}

#[tokio::test]
async fn status_update_of_a_built_in_kind_changes_annotations() {
    let api = Api::new();
    api.post(&apps("deployments"), &deployment("d", 1)).await.ok();
    let metadata = json!({"annotations": {"a": "b"}, "labels": {"no": "x"}});
    let patch = json!({"metadata": metadata, "status": {"replicas": 1}});
    let written = api.merge(&apps("deployments/d/status"), &patch).await.ok();
    assert_eq!(written["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(written["metadata"].get("labels"), None);
    assert!(written["metadata"]["managedFields"].is_array());
}

#[tokio::test]
async fn nobody_manages_what_an_update_allocates_for_a_service() {
    let api = Api::new();
    let external = json!({
        "metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80}]},
    });
    api.post(&core("services"), &external).await.ok();
    let patch = json!({"spec": {"type": "NodePort", "externalName": null}});
    let service = api.merge(&core("services/a?fieldManager=two"), &patch).await.ok();
    assert!(service["spec"]["clusterIP"].is_string() && service["spec"]["ports"][0]["nodePort"].is_number());
    let managers = service["metadata"]["managedFields"].as_array().expect("managers");
    let two = managers.iter().find(|entry| entry["manager"] == "two").expect("the second manager");
    // The other two are defaults of the type, which are set before.
    let owned =
        json!({"f:spec": {"f:externalTrafficPolicy": {}, "f:internalTrafficPolicy": {}, "f:type": {}}});
    assert_eq!(two["fieldsV1"], owned, "{two}");
}
