//! The four kinds of patch, sent to the server.

mod api;

use api::{Api, apps, core, version};
use serde_json::{Value, json};

fn deployment() -> Value {
    json!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "side", "image": "s"}]},
            },
        },
    })
}

#[tokio::test]
async fn strategic_merge_patch_matches_containers_by_name() {
    let api = Api::new();
    api.post(&apps("deployments"), &deployment()).await.ok();
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "new"}]}}}});
    let patched = api.patch("strategic-merge-patch+json", &apps("deployments/d"), &patch).await.ok();
    let containers = &patched["spec"]["template"]["spec"]["containers"];
    assert_eq!((&containers[0]["image"], &containers[1]["image"]), (&json!("i"), &json!("new")));
}

#[tokio::test]
async fn json_patch_with_a_failing_test_changes_nothing() {
    let api = Api::new();
    let created =
        api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await.ok();
    let good = json!([{"op": "test", "path": "/data/x", "value": "1"}, {"op": "replace", "path": "/data/x", "value": "2"}]);
    let patched = api.patch("json-patch+json", &core("configmaps/a"), &good).await.ok();
    assert_eq!(patched["data"]["x"], "2");
    api.patch("json-patch+json", &core("configmaps/a"), &good).await.fails(422, "Invalid");
    let stale = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": version(&created)},
                       {"op": "replace", "path": "/data/x", "value": "3"}]);
    api.patch("json-patch+json", &core("configmaps/a"), &stale).await.fails(409, "Conflict");
    api.patch("json-patch+json", &core("configmaps/a"), &json!({"not": "a list"}))
        .await
        .fails(400, "BadRequest");
}

#[tokio::test]
async fn patch_cannot_change_name_uid_or_kind() {
    let api = Api::new();
    let created = api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    api.merge(&core("configmaps/a"), &json!({"metadata": {"name": "b"}})).await.fails(400, "BadRequest");
    api.merge(&core("configmaps/a"), &json!({"metadata": {"uid": "x"}})).await.fails(422, "Invalid");
    api.merge(&core("configmaps/a"), &json!({"kind": "Secret"})).await.fails(400, "BadRequest");
    let same = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}});
    let kept = api.merge(&core("configmaps/a"), &same).await.ok();
    assert_eq!(kept["metadata"]["creationTimestamp"], created["metadata"]["creationTimestamp"]);
    api.patch("unknown-patch", &core("configmaps/a"), &json!({})).await.fails(415, "UnsupportedMediaType");
}

#[tokio::test]
async fn apply_creates_owns_and_removes_fields() {
    let api = Api::new();
    let path = core("configmaps/a?fieldManager=one");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}});
    let created = api.apply(&path, &config).await;
    assert_eq!(created.code, 201);
    let manager = &created.body["metadata"]["managedFields"][0];
    assert_eq!((&manager["manager"], &manager["operation"]), (&json!("one"), &json!("Apply")));
    let again = api.apply(&path, &config).await.ok();
    assert_eq!(version(&again), version(&created.body), "applying the same again writes nothing");
    let less =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
    assert_eq!(api.apply(&path, &less).await.ok()["data"], json!({"x": "1"}));
    api.apply(&core("configmaps/a"), &less).await.fails(422, "Invalid");
}

#[tokio::test]
async fn apply_with_an_undeclared_field_fails_as_in_kubernetes() {
    let api = Api::new();
    let path = core("configmaps/a?fieldManager=one&fieldValidation=Ignore");
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "lables": {}}, "what": 1});
    let refused = api.apply(&path, &config).await;
    assert_eq!(
        (refused.code, &refused.body["message"]),
        (
            500,
            &json!(
                "failed to create typed patch object (/a; /v1, Kind=ConfigMap): errors:\n  \
                 .metadata.lables: field not declared in schema\n  .what: field not declared in schema"
            )
        )
    );
    api.get(&core("configmaps/a")).await.fails(404, "NotFound");
    api.post(&apps("deployments"), &deployment()).await.ok();
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicsa": 2}});
    let refused = api.apply(&apps("deployments/d/status?fieldManager=s"), &status).await;
    assert_eq!(
        (refused.code, &refused.body["message"]),
        (
            500,
            &json!(
                "failed to create typed patch object (/; apps/v1, Kind=Deployment): .status.replicsa: field not declared in schema"
            )
        )
    );
}

#[tokio::test]
async fn apply_with_a_uid_does_not_create() {
    let api = Api::new();
    let path = core("configmaps/a?fieldManager=one");
    let config = |uid: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"uid": uid}, "data": {"x": "1"}});
    api.apply(&path, &config(&json!("gone"))).await.fails(409, "Conflict");
    let created = api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    let applied = api.apply(&path, &config(&created["metadata"]["uid"])).await.ok();
    assert_eq!(applied["data"], json!({"x": "1"}));
    api.apply(&path, &config(&json!("gone"))).await.fails(409, "Conflict");
}

#[tokio::test]
async fn apply_conflicts_with_another_manager_unless_forced() {
    let api = Api::new();
    let config = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": value}});
    api.apply(&core("configmaps/a?fieldManager=one"), &config("1")).await.ok();
    let conflict =
        api.apply(&core("configmaps/a?fieldManager=two"), &config("2")).await.fails(409, "Conflict");
    assert_eq!(conflict["details"]["causes"][0]["reason"], "FieldManagerConflict");
    assert_eq!(conflict["details"]["causes"][0]["field"], ".data.x");
    let forced = api.apply(&core("configmaps/a?fieldManager=two&force=true"), &config("2")).await.ok();
    assert_eq!(forced["data"]["x"], "2");
}

#[tokio::test]
async fn apply_of_kubectl_updates_the_annotation_of_client_side_apply() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let api = Api::new();
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
    let mut live = applied.clone();
    live["metadata"]["annotations"] = json!({ANNOTATION: applied.to_string()});
    api.post(&core("configmaps?fieldManager=kubectl-client-side-apply"), &live).await.ok();
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "<2>"}});
    let result = api.apply(&core("configmaps/a?fieldManager=kubectl"), &config).await.ok();
    assert_eq!(
        result["metadata"]["annotations"][ANNOTATION],
        "{\"apiVersion\":\"v1\",\"data\":{\"x\":\"\\u003c2\\u003e\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n"
    );
    let other =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"y": "1"}});
    let unchanged = api.apply(&core("configmaps/a?fieldManager=other"), &other).await.ok();
    assert_eq!(unchanged["metadata"]["annotations"], result["metadata"]["annotations"]);
}

#[tokio::test]
async fn apply_with_a_value_of_the_wrong_type_fails_as_in_kubernetes() {
    let api = Api::new();
    for (spec, problem) in [
        (json!({"replicas": "1"}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!({"paused": "no"}), ".spec.paused: expected boolean, got &{no}"),
        (json!({"template": ["a"]}), ".spec.template: expected map, got &{[a]}"),
        (
            json!({"strategy": {"type": 1}}),
            ".spec.strategy.type: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": {}}}}),
            ".spec.strategy.rollingUpdate.maxSurge: expected any scalar, got &{map[]}",
        ),
    ] {
        let config =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
        let refused = api.apply(&apps("deployments/d?fieldManager=m"), &config).await;
        let message =
            format!("failed to create typed patch object (/d; apps/v1, Kind=Deployment): {problem}");
        assert_eq!((refused.code, &refused.body["message"]), (500, &json!(message)));
    }
}

#[tokio::test]
async fn apply_to_status_changes_only_the_status() {
    let api = Api::new();
    api.post(&apps("deployments"), &deployment()).await.ok();
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 2}, "spec": {"replicas": 9}});
    let applied = api.apply(&apps("deployments/d/status?fieldManager=s"), &status).await.ok();
    assert_eq!((&applied["status"]["replicas"], &applied["spec"]["replicas"]), (&json!(2), &json!(1)));
    let missing = apps("deployments/none/status?fieldManager=s");
    api.apply(&missing, &status).await.fails(404, "NotFound");
}

#[tokio::test]
async fn concurrent_patches_without_a_version_all_succeed() {
    let api = Api::new();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    let patches = (0..50).map(|index| {
        let (api, body) = (&api, json!({"data": {format!("k{index}"): "v"}}));
        async move { api.merge(&core("configmaps/a"), &body).await.ok() }
    });
    futures::future::join_all(patches).await;
    let data = api.get(&core("configmaps/a")).await.ok()["data"].clone();
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(50));
}

#[tokio::test]
async fn apply_to_scale_sets_and_owns_the_replicas() {
    let api = Api::new();
    api.post(&apps("deployments"), &deployment()).await.ok();
    let scale = |replicas: u32| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": replicas}});
    let path = apps("deployments/d/scale?fieldManager=one&force=true");
    let applied = api.apply(&path, &scale(4)).await.ok();
    assert_eq!((&applied["kind"], &applied["spec"]["replicas"]), (&json!("Scale"), &json!(4)));
    let scaled = api.get(&apps("deployments/d")).await.ok();
    assert_eq!(scaled["spec"]["replicas"], 4);
    let managers = scaled["metadata"]["managedFields"].as_array().expect("managers");
    let one = managers.iter().find(|entry| entry["manager"] == "one").expect("an entry");
    assert_eq!(
        (&one["subresource"], &one["fieldsV1"]),
        (&json!("scale"), &json!({"f:spec": {"f:replicas": {}}}))
    );
    let conflict = api.apply(&apps("deployments/d/scale?fieldManager=two"), &scale(5)).await;
    assert_eq!(conflict.fails(409, "Conflict")["details"]["causes"][0]["field"], ".spec.replicas");
    api.apply(&path, &scale(4)).await.ok();
    let missing = apps("deployments/none/scale?fieldManager=one");
    let mut other = scale(1);
    other["metadata"]["name"] = json!("none");
    api.apply(&missing, &other).await.fails(404, "NotFound");
}

#[tokio::test]
async fn every_update_of_a_namespace_keeps_the_label_with_its_name() {
    let api = Api::new();
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.ok();
    for path in ["/api/v1/namespaces/n", "/api/v1/namespaces/n/status", "/api/v1/namespaces/n/finalize"] {
        let update = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}});
        let updated = api.put(path, &update).await.ok();
        assert_eq!(updated["metadata"]["labels"]["kubernetes.io/metadata.name"], "n", "{path}");
    }
}

#[tokio::test]
async fn an_applied_item_ends_with_the_fields_that_others_set_in_it() {
    let api = Api::new();
    let deployment = |container: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": container, "image": "i"}]},
            },
        }})
    };
    let path = apps("deployments/a?fieldManager=applier");
    let mut applied = api.apply(&path, &deployment("one")).await.ok();
    applied["spec"]["template"]["spec"]["containers"][0]["workingDir"] = json!("/home");
    api.put(&apps("deployments/a?fieldManager=updater"), &applied).await.ok();
    let applied = api.apply(&path, &deployment("two")).await.ok();
    let containers = applied["spec"]["template"]["spec"]["containers"].as_array().expect("a list").clone();
    assert_eq!(containers.len(), 1, "{containers:?}");
    assert_eq!(containers[0]["name"], "two");
}

#[tokio::test]
async fn an_empty_list_of_managed_fields_in_a_put_clears_them() {
    let api = Api::new();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
    let path = core("configmaps/a");
    api.apply(&format!("{path}?fieldManager=applier"), &map).await.ok();
    let mut cleared = map.clone();
    cleared["metadata"]["managedFields"] = json!([]);
    let updated = api.put(&path, &cleared).await.ok();
    assert_eq!(updated["metadata"].get("managedFields"), None);
}
