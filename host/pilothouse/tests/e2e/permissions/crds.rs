//! CRDs of plugins: those of other field managers are not changed, and those of a version that never ran are reported.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::harness::{Host, wat};

fn crd(field: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {field: {"type": "string"}}}}}]}
    })
}

/// Returns a sidecar for `echo.wat` with a descriptor that has this CRD and watches this kind.
fn sidecar(crd: &Value, kind: &str) -> String {
    let watch = json!({"name": "things", "apiVersion": "example.com/v1", "kind": kind, "trigger": "self"});
    let descriptor = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": [watch], "crds": [crd]
    });
    json!({"config": descriptor, "grants": {"crds": true}}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_of_another_field_manager_is_used_but_never_changed() {
    let host = Host::start().await;
    if host.server.skip_if_external("the test creates a CRD that is not removed") {
        return;
    }
    let crds = Api::<CustomResourceDefinition>::all(host.server.client.clone());
    let theirs = serde_json::from_value(crd("theirs")).expect("a CRD");
    let helm = PostParams { field_manager: Some("helm".into()), ..PostParams::default() };
    crds.create(&helm, &theirs).await.expect("created");
    let before = crds.get("things.example.com").await.expect("there").metadata;
    host.write_sidecar("same", &sidecar(&crd("theirs"), "Thing"));
    host.install_plugin("same", &wat("echo"));
    host.wait_for_state("same", "running").await;
    host.write_sidecar("other", &sidecar(&crd("ours"), "Thing"));
    host.install_plugin("other", &wat("echo"));
    host.wait_for_plugin("other", "the conflict", |plugin| {
        plugin["error"].as_str().is_some_and(|error| {
            error.contains("the CRD \"things.example.com\"") && error.contains("by hand")
        })
    })
    .await;
    let managers = |metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        let managers = metadata.managed_fields.iter().flatten();
        managers.filter_map(|entry| entry.manager.clone()).collect::<Vec<_>>()
    };
    let after = crds.get("things.example.com").await.expect("there").metadata;
    assert_eq!(after.generation, before.generation);
    assert!(!managers(&after).contains(&"pilothouse-crds".to_owned()), "{:?}", managers(&after));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_newer_than_the_running_version_is_reported() {
    let host = Host::start().await;
    if host.server.skip_if_external("the test creates a CRD that is not removed") {
        return;
    }
    let first = sidecar(&crd("first"), "Thing");
    host.write_sidecar("things", &first);
    host.install_plugin("things", &wat("echo"));
    host.wait_for_generation("things", 1).await;
    // The new version applies its CRD and then waits for a kind that does not exist.
    host.write_sidecar("things", &sidecar(&crd("second"), "Nothing"));
    host.wait_for_plugin("things", "its new version waiting", |plugin| {
        plugin["error"].as_str().is_some_and(|error| error.contains("\"Nothing\""))
    })
    .await;
    host.write_sidecar("things", &first);
    host.wait_for_plugin("things", "the warning about its CRD", |plugin| {
        let warning = "the CRD things.example.com is that of a newer version, and is not reverted";
        plugin["state"] == "running" && plugin["error"] == warning
    })
    .await;
}
