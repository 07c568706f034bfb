//! How large an object may be, whatever made it large. The messages are those of kube-apiserver 1.36 with etcd.

mod api;

use api::{Answer, Api};
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LISTS: &str = "/apis/example.com/v1/namespaces/default/lists";

fn crd() -> Value {
    let item = json!({"type": "object", "properties": {"p": {"type": "string", "default": "x".repeat(100)}}});
    let properties = json!({"items": {"type": "array", "items": item}, "text": {"type": "string"}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lists.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "lists", "kind": "List"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}],
        },
    })
}

fn list(name: &str, bytes: usize) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "List", "metadata": {"name": name}, "text": "x".repeat(bytes)})
}

#[track_caller]
fn is_too_large(answer: &Answer, message: &str) {
    assert_eq!(answer.code, 500);
    let found = answer.body["message"].as_str().unwrap_or_default();
    assert!(found.contains(message), "{found}");
    assert_eq!(answer.body.get("reason"), None);
}

#[tokio::test]
async fn an_object_that_etcd_would_refuse_is_not_stored() {
    let api = Api::new();
    api.post(CRDS, &crd()).await.ok();
    api.post(LISTS, &list("fits", 1_572_000)).await.ok();
    is_too_large(&api.post(LISTS, &list("large", 1_572_864)).await, "etcdserver: request is too large");
    is_too_large(
        &api.post(LISTS, &list("larger", 2_200_000)).await,
        "trying to send message larger than max (22",
    );
    api.get(&format!("{LISTS}/large")).await.fails(404, "NotFound");
    // A dry run stores nothing.
    api.post(&format!("{LISTS}?dryRun=All"), &list("large", 1_700_000)).await.ok();

    api.post(LISTS, &list("grows", 1)).await.ok();
    let path = format!("{LISTS}/grows");
    let mut replaced = list("grows", 1_600_000);
    replaced["metadata"]["resourceVersion"] =
        api.get(&path).await.ok()["metadata"]["resourceVersion"].clone();
    for answer in [
        api.merge(&path, &json!({"text": "x".repeat(1_600_000)})).await,
        api.put(&path, &replaced).await,
        api.apply(&format!("{path}?fieldManager=a&force=true"), &list("grows", 1_600_000)).await,
    ] {
        is_too_large(&answer, "etcdserver: request is too large");
    }
    assert_eq!(api.get(&path).await.ok()["text"], "x");
}

#[tokio::test]
async fn defaults_do_not_make_an_object_larger_than_that() {
    let api = Api::new();
    api.post(CRDS, &crd()).await.ok();
    let items = |count: usize| json!({"apiVersion": "example.com/v1", "kind": "List", "metadata": {"name": "a"}, "items": vec![json!({}); count]});
    is_too_large(&api.post(LISTS, &items(500_000)).await, "etcdserver: request is too large");
    let created = api.post(LISTS, &items(10_000)).await.ok();
    assert_eq!(created["items"][9_999]["p"].as_str().map(str::len), Some(100));
}

#[tokio::test]
async fn an_object_that_cannot_grow_is_deleted_once_it_is_smaller() {
    let api = Api::new();
    api.post(CRDS, &crd()).await.ok();
    let with_finalizer = |name: &str, bytes: usize| {
        let mut object = list(name, bytes);
        object["metadata"]["finalizers"] = json!(["example.com/a"]);
        object
    };
    let small = api.post(LISTS, &with_finalizer("tiny", 0)).await.ok();
    // The type is not part of what is stored.
    let overhead = small.to_string().len() - r#""apiVersion":"example.com/v1","kind":"List","#.len();
    api.post(LISTS, &with_finalizer("full", 1_572_864 - overhead - 20)).await.ok();
    let path = format!("{LISTS}/full");
    // Marking it as deleted makes it longer, which etcd refuses, too.
    let refused = api.delete(&path, &json!({})).await;
    is_too_large(&refused, "etcdserver: request is too large");
    api.merge(&path, &json!({"text": ""})).await.ok();
    api.delete(&path, &json!({})).await.ok();
    api.merge(&path, &json!({"metadata": {"finalizers": null}})).await.ok();
    api.get(&path).await.fails(404, "NotFound");
}
