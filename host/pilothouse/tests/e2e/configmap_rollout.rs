//! An `index` trigger over a computed index: a ConfigMap, and the Deployments that use it.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Guest, Host};

const PLUGIN: &str = "configmap-rollout";
const ANNOTATION: &str = "configmap-rollout.pilothouse.dev/hash";

/// Makes one; its version.
async fn config_map(host: &Host, name: &str, value: &str) -> String {
    let manifest = json!({"metadata": {"name": name}, "data": {"mode": value}});
    let map = serde_json::from_value(manifest).expect("a config map");
    let made = host.server.config_maps().create(&PostParams::default(), &map).await.expect("created");
    made.metadata.resource_version.expect("a version")
}

/// A Deployment whose Pods use the ConfigMap.
async fn deployment(host: &Host, name: &str, enabled: bool, config_map: &str) {
    let mut manifest = json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"somebody": "else"}},
                "spec": {"containers": [
                    {"name": "main", "image": "nginx", "envFrom": [{"configMapRef": {"name": config_map}}]},
                ]},
            },
        },
    });
    if enabled {
        manifest["metadata"]["labels"] = json!({"configmap-rollout": "enabled"});
    }
    let deployment = serde_json::from_value(manifest).expect("a deployment");
    deployments(host).create(&PostParams::default(), &deployment).await.expect("created");
}

fn deployments(host: &Host) -> Api<Deployment> {
    Api::namespaced(host.server.client.clone(), &host.server.namespace)
}

async fn hash(host: &Host, name: &str) -> Option<String> {
    let found: Value = host.server.get(&host.server.path("/apis/apps/v1", "deployments", name)).await;
    let annotations = &found["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["somebody"], "else", "{found:#}");
    annotations[ANNOTATION].as_str().map(str::to_owned)
}

/// Waits for a hash that is not `before`.
async fn another_hash(host: &Host, name: &str, before: Option<&str>) -> String {
    let look = || async { hash(host, name).await.filter(|hash| Some(hash.as_str()) != before) };
    host.wait(&format!("another hash in {name} than {before:?}"), look).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_config_map_rolls_out_the_deployments_that_use_it() {
    let host = Host::start().await;
    // An object that a busy machine takes too long for would be left out of the index.
    host.sidecar(PLUGIN, "limits: {indexTimeout: 5m}\n");
    host.drop_in(PLUGIN, &Guest::ConfigmapRollout.wasm());
    host.wait_for_state(PLUGIN, "running").await;
    config_map(&host, "used", "slow").await;
    let last = config_map(&host, "unused", "slow").await;
    // A Deployment that comes before its ConfigMap has another hash first.
    host.wait_until_cached("/api/v1/configmaps", &last).await;
    deployment(&host, "web", true, "used").await;
    deployment(&host, "other", true, "comes-later").await;
    deployment(&host, "plain", false, "used").await;
    let first = another_hash(&host, "web", None).await;
    let other = another_hash(&host, "other", None).await;
    assert_ne!(first, other);

    host.server.set_data("unused", "mode", "fast").await;
    host.server.set_data("used", "mode", "fast").await;
    let second = another_hash(&host, "web", Some(&first)).await;
    assert_eq!(hash(&host, "other").await.as_ref(), Some(&other), "its ConfigMaps have not changed");

    // The content counts, and it counts in full: the same again is the same hash.
    host.server.set_data("used", "mode", "slow").await;
    assert_eq!(another_hash(&host, "web", Some(&second)).await, first);

    // One that comes, and one that goes, are changes.
    config_map(&host, "comes-later", "here").await;
    let with_map = another_hash(&host, "other", Some(&other)).await;
    host.server
        .config_maps()
        .delete("comes-later", &kube::api::DeleteParams::default())
        .await
        .expect("deleted");
    assert_eq!(another_hash(&host, "other", Some(&with_map)).await, other);

    // A Deployment that uses another ConfigMap is found under that one's key from now on.
    let container = json!({"name": "main", "envFrom": [{"configMapRef": {"name": "unused"}}]});
    let patch = Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": [container]}}}}));
    deployments(&host).patch("web", &PatchParams::default(), &patch).await.expect("patched");
    let third = another_hash(&host, "web", Some(&first)).await;
    host.server.set_data("unused", "mode", "changed").await;
    let fourth = another_hash(&host, "web", Some(&third)).await;
    assert_ne!(fourth, third);

    assert_eq!(hash(&host, "plain").await, None, "it was not asked for");
    let event = || async {
        let events = host.server.events().await;
        events.into_iter().find(|event| event.reason.as_deref() == Some("ConfigMapsChanged"))
    };
    host.wait("an Event about it", event).await;
}
