//! Reads and writes of custom resources.

use serde_json::{Value, json};

use crate::api::names;
use crate::{FOOS, foo, with_crd};

#[tokio::test]
async fn metadata_of_a_wrong_type_is_refused() {
    let api = with_crd().await;
    let created = api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let before = "Foo in version \"v1\" cannot be handled as a Foo: json: cannot unmarshal";
    for (metadata, problem) in [
        (json!("text"), "string into Go value of type v1.ObjectMeta"),
        (
            json!({"name": "a", "labels": ["x"]}),
            "array into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        (
            json!({"name": "a", "annotations": {"x": 1}}),
            "number into Go struct field ObjectMeta.annotations of type string",
        ),
        (
            json!({"name": "a", "finalizers": "x"}),
            "string into Go struct field ObjectMeta.finalizers of type []string",
        ),
    ] {
        let mut body = foo("a", &json!({"color": "red"}));
        body["metadata"] = metadata;
        for answer in [
            api.post(FOOS, &body).await,
            api.put(&format!("{FOOS}/a"), &body).await,
            api.put(&format!("{FOOS}/a/status"), &body).await,
        ] {
            assert_eq!(answer.fails(400, "BadRequest")["message"], format!("{before} {problem}"));
        }
    }
    let scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": "text", "spec": {"replicas": 1}});
    let refused = api.put(&format!("{FOOS}/a/scale"), &scale).await.fails(400, "BadRequest");
    let message = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
    assert_eq!(refused["message"], message, "as in kube-apiserver");
    api.merge(&format!("{FOOS}/a"), &json!({"metadata": {"labels": ["x"]}})).await.fails(422, "Invalid");
    assert_eq!(api.get(&format!("{FOOS}/a")).await.ok(), created);
}

#[tokio::test]
async fn list_items_of_custom_resources_have_kind_and_api_version() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let list = api.get(FOOS).await.ok();
    assert_eq!(list["kind"], "FooList");
    assert_eq!(
        (&list["items"][0]["kind"], &list["items"][0]["apiVersion"]),
        (&json!("Foo"), &json!("example.com/v1"))
    );
}

#[tokio::test]
async fn status_and_scale_are_subresources() {
    let api = with_crd().await;
    let mut with_status = foo("a", &json!({"replicas": 2}));
    with_status["status"] = json!({"replicas": 5});
    let created = api.post(FOOS, &with_status).await.ok();
    assert_eq!(created.get("status"), None, "a new object has no status");
    let status = json!({"status": {"replicas": 5}, "spec": {"replicas": 9}});
    let written = api.merge(&format!("{FOOS}/a/status"), &status).await.ok();
    assert_eq!((&written["spec"]["replicas"], &written["status"]["replicas"]), (&json!(2), &json!(5)));
    assert_eq!(written["metadata"]["generation"], 1);
    let scale = api.get(&format!("{FOOS}/a/scale")).await.ok();
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(2), &json!(5)));
    api.merge(&format!("{FOOS}/a/scale"), &json!({"spec": {"replicas": 3}})).await.ok();
    let scaled = api.get(&format!("{FOOS}/a")).await.ok();
    assert_eq!((&scaled["spec"]["replicas"], &scaled["metadata"]["generation"]), (&json!(3), &json!(2)));
}

#[tokio::test]
async fn custom_resources_have_no_strategic_merge_and_no_unconditional_put() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let path = format!("{FOOS}/a");
    api.patch("strategic-merge-patch+json", &path, &json!({})).await.fails(415, "UnsupportedMediaType");
    let refused = api.put(&path, &foo("a", &json!({"replicas": 2}))).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "metadata.resourceVersion");
}

#[tokio::test]
async fn field_selector_supports_selectable_fields_of_the_crd() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({"color": "red"}))).await.ok();
    api.post(FOOS, &foo("b", &json!({"color": "blue"}))).await.ok();
    assert_eq!(names(&api.get(&format!("{FOOS}?fieldSelector=spec.color%3Dblue")).await.ok()), ["b"]);
    api.get(&format!("{FOOS}?fieldSelector=spec.replicas%3D1")).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn server_side_apply_merges_custom_resources_by_manager() {
    let api = with_crd().await;
    let path = |manager: &str| format!("{FOOS}/a?fieldManager={manager}");
    api.apply(&path("one"), &foo("a", &json!({"color": "red"}))).await.ok();
    let both = api.apply(&path("two"), &foo("a", &json!({"replicas": 3}))).await.ok();
    assert_eq!(both["spec"], json!({"color": "red", "replicas": 3}));
    let less = api.apply(&path("two"), &foo("a", &json!({}))).await.ok();
    assert_eq!(less["spec"], json!({"color": "red", "replicas": 1}), "the default is back");
}

#[tokio::test]
async fn namespaced_resources_are_written_in_a_namespace_only() {
    let api = with_crd().await;
    api.post("/apis/example.com/v1/foos", &foo("a", &json!({}))).await.fails(404, "NotFound");
    api.delete("/apis/example.com/v1/foos", &Value::Null).await.fails(404, "NotFound");
    api.get("/apis/example.com/v1/foos").await.ok();
    api.delete("/api/v1/configmaps", &Value::Null).await.fails(405, "MethodNotAllowed");
}

#[tokio::test]
async fn finalizers_without_a_domain_are_warned_about_once() {
    let api = with_crd().await;
    let mut object = foo("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["b.example.com", "a", "c/d", "a"]);
    object["metadata"]["resourceVersion"] = json!("no number");
    let created = api.post(FOOS, &object).await;
    let warning = |name: &str, path: &str| {
        format!(
            "299 - \"metadata.finalizers: \\\"{name}\\\": prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers\""
        )
    };
    assert_eq!(created.warnings, [warning("a", ""), warning("b.example.com", " including a path (/)")]);
    created.ok();
    let finalizers = json!({"metadata": {"finalizers": ["a", "e"]}});
    let updated = api.merge(&format!("{FOOS}/a"), &finalizers).await;
    assert_eq!(updated.warnings, [warning("e", "")]);
    let mut versioned = foo("b", &json!({}));
    versioned["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(api.post(FOOS, &versioned).await.code, 500);
}
