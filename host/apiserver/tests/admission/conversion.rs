//! Conversion webhooks: custom resources that are stored in one version and served in another.

use serde_json::{Value, json};

use crate::api::Api;
use crate::server::WebhookServer;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn widgets(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/widgets")
}

/// Returns a CRD whose versions name their field differently: `spec.old` in v1, `spec.new` in v2, the version that is stored.
fn crd(client_config: &Value) -> Value {
    let version = |name: &str, field: &str, storage: bool| {
        let spec = json!({"type": "object", "properties": {field: {"type": "string"}}});
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", "old", false), version("v2", "new", true)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]},
            },
        },
    })
}

/// Renames the field of the spec for the desired version. Objects with the value `stuck` fail.
fn convert(_: &str, request: &Value) -> Value {
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let (from, to) = if desired.ends_with("/v2") { ("old", "new") } else { ("new", "old") };
    let mut objects = request["objects"].as_array().cloned().unwrap_or_default();
    for object in &mut objects {
        let value = object["spec"][from].take();
        if value == "stuck" {
            return json!({"result": {"status": "Failure", "message": "this one cannot be converted"}});
        }
        object["apiVersion"] = desired.into();
        object["spec"] = json!({to: value});
    }
    json!({"result": {"status": "Success"}, "convertedObjects": objects})
}

async fn start() -> (Api, WebhookServer) {
    let api = Api::new();
    let hook = WebhookServer::start(convert).await;
    api.post(CRDS, &crd(&hook.client_config("/convert"))).await.ok();
    (api, hook)
}

fn widget(name: &str, version: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn objects_are_served_in_every_version() {
    let (api, hook) = start().await;
    let created = api.post(&widgets("v1"), &widget("a", "v1", &json!({"old": "x"}))).await.ok();
    assert_eq!((&created["apiVersion"], &created["spec"]), (&json!("example.com/v1"), &json!({"old": "x"})));
    let converted = hook.reviews().len();
    let path = format!("{}/a", widgets("v2"));
    assert_eq!(api.get(&path).await.ok()["spec"], json!({"new": "x"}));
    assert_eq!(hook.reviews().len(), converted, "the stored version needs no conversion");
    let list = api.get(&widgets("v1")).await.ok();
    assert_eq!(list["items"][0]["spec"], json!({"old": "x"}));
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1");

    let path = format!("{}/a", widgets("v1"));
    let changed = api.merge(&path, &json!({"spec": {"old": "y"}})).await.ok();
    assert_eq!(changed["spec"], json!({"old": "y"}));
    assert_eq!(changed["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(api.get(&format!("{}/a", widgets("v2"))).await.ok()["spec"], json!({"new": "y"}));
    api.delete(&path, &Value::Null).await.ok();
}

#[tokio::test]
async fn watch_sends_events_in_its_version() {
    let (api, _hook) = start().await;
    api.post(&widgets("v2"), &widget("a", "v2", &json!({"new": "x"}))).await.ok();
    let mut watch = api.watch(&widgets("v1")).await;
    let event = watch.next().await.expect("the initial object");
    assert_eq!((&event["type"], &event["object"]["spec"]), (&json!("ADDED"), &json!({"old": "x"})));
    api.merge(&format!("{}/a", widgets("v2")), &json!({"spec": {"new": "y"}})).await.ok();
    let event = watch.next().await.expect("a change");
    assert_eq!((&event["type"], &event["object"]["spec"]), (&json!("MODIFIED"), &json!({"old": "y"})));
    assert_eq!(event["object"]["apiVersion"], "example.com/v1");
}

#[tokio::test]
async fn failed_conversion_stores_nothing_and_is_explained() {
    let (api, _hook) = start().await;
    let failed = api.post(&widgets("v1"), &widget("a", "v1", &json!({"old": "stuck"}))).await;
    assert_eq!(failed.code, 500);
    assert_eq!(
        failed.body["message"],
        "conversion webhook for example.com/v1, Kind=Widget failed: this one cannot be converted"
    );
    assert_eq!(api.get(&format!("{}/a", widgets("v2"))).await.code, 404);
}

#[tokio::test]
async fn objects_keep_their_stored_version_when_the_storage_version_changes() {
    let (api, _hook) = start().await;
    api.post(&widgets("v2"), &widget("a", "v2", &json!({"new": "x"}))).await.ok();
    let path = format!("{CRDS}/widgets.example.com");
    let mut crd = api.get(&path).await.ok();
    crd["spec"]["versions"][0]["storage"] = json!(true);
    crd["spec"]["versions"][1]["storage"] = json!(false);
    let crd = api.put(&path, &crd).await.ok();
    assert_eq!(crd["status"]["storedVersions"], json!(["v2", "v1"]));
    for (version, spec) in [("v1", json!({"old": "x"})), ("v2", json!({"new": "x"}))] {
        assert_eq!(api.get(&format!("{}/a", widgets(version))).await.ok()["spec"], spec, "{version}");
    }
    api.merge(&format!("{}/a", widgets("v2")), &json!({"spec": {"new": "y"}})).await.ok();
    assert_eq!(api.get(&format!("{}/a", widgets("v1"))).await.ok()["spec"], json!({"old": "y"}));
}

#[tokio::test]
async fn webhook_sees_objects_in_the_version_of_its_rule() {
    let (api, _hook) = start().await;
    let review = WebhookServer::start(|_, request| {
        json!({"allowed": request["object"]["spec"]["new"] != "bad", "status": {"message": "it is bad"}})
    })
    .await;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "v"},
        "webhooks": [{
            "name": "v.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": review.client_config("/v"),
            "rules": [{
                "operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"],
            }],
        }],
    });
    api.post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &configuration)
        .await
        .ok();
    let denied = api.post(&widgets("v1"), &widget("a", "v1", &json!({"old": "bad"}))).await;
    assert_eq!(denied.code, 400, "{:#}", denied.body);
    api.post(&widgets("v1"), &widget("a", "v1", &json!({"old": "good"}))).await.ok();
    let (_, request) = review.reviews().remove(0);
    assert_eq!(
        (&request["kind"]["version"], &request["requestKind"]["version"], &request["object"]["apiVersion"]),
        (&json!("v2"), &json!("v1"), &json!("example.com/v2"))
    );
}
