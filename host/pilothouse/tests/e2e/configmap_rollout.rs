//! The example `configmap-rollout`: an `index` trigger on a computed index, from a ConfigMap to the Deployments that use it.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Guest, Host};

const PLUGIN: &str = "configmap-rollout";
const ANNOTATION: &str = "configmap-rollout.pilothouse.dev/hash";

/// Creates a ConfigMap and returns its resource version.
async fn create_config_map(host: &Host, name: &str, value: &str) -> String {
    let manifest = json!({"metadata": {"name": name}, "data": {"mode": value}});
    let map = serde_json::from_value(manifest).expect("a config map");
    let made = host.server.config_maps().create(&PostParams::default(), &map).await.expect("created");
    made.metadata.resource_version.expect("a version")
}

/// Creates a Deployment with Pods that use the ConfigMap.
async fn create_deployment(host: &Host, name: &str, enabled: bool, config_map: &str) {
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

/// Waits until the hash differs from `before`.
async fn wait_for_new_hash(host: &Host, name: &str, before: Option<&str>) -> String {
    let poll = || async { hash(host, name).await.filter(|hash| Some(hash.as_str()) != before) };
    host.wait(&format!("the hash of {name} to change from {before:?}"), poll).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_config_map_rolls_out_the_deployments_that_use_it() {
    let host = Host::start().await;
    // A generous timeout, because on a busy machine a slow object would be excluded from the index.
    host.write_sidecar(PLUGIN, "limits: {indexTimeout: 5m}\n");
    host.install_plugin(PLUGIN, &Guest::ConfigmapRollout.wasm());
    host.wait_for_state(PLUGIN, "running").await;
    create_config_map(&host, "used", "slow").await;
    let last = create_config_map(&host, "unused", "slow").await;
    // Otherwise the first hash could be that of a missing ConfigMap.
    host.wait_until_cached("/api/v1/configmaps", &last).await;
    create_deployment(&host, "web", true, "used").await;
    create_deployment(&host, "other", true, "comes-later").await;
    create_deployment(&host, "plain", false, "used").await;
    let first = wait_for_new_hash(&host, "web", None).await;
    let other = wait_for_new_hash(&host, "other", None).await;
    assert_ne!(first, other);

    host.server.set_data("unused", "mode", "fast").await;
    host.server.set_data("used", "mode", "fast").await;
    let second = wait_for_new_hash(&host, "web", Some(&first)).await;
    assert_eq!(hash(&host, "other").await.as_ref(), Some(&other), "its ConfigMaps have not changed");

    // The hash depends only on the content: restoring the content restores the hash.
    host.server.set_data("used", "mode", "slow").await;
    assert_eq!(wait_for_new_hash(&host, "web", Some(&second)).await, first);

    // Creating and deleting a ConfigMap are changes, too.
    create_config_map(&host, "comes-later", "here").await;
    let with_map = wait_for_new_hash(&host, "other", Some(&other)).await;
    host.server
        .config_maps()
        .delete("comes-later", &kube::api::DeleteParams::default())
        .await
        .expect("deleted");
    assert_eq!(wait_for_new_hash(&host, "other", Some(&with_map)).await, other);

    // A Deployment that switches to another ConfigMap is indexed under the new key.
    let container = json!({"name": "main", "envFrom": [{"configMapRef": {"name": "unused"}}]});
    let patch = Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": [container]}}}}));
    deployments(&host).patch("web", &PatchParams::default(), &patch).await.expect("patched");
    let third = wait_for_new_hash(&host, "web", Some(&first)).await;
    host.server.set_data("unused", "mode", "changed").await;
    let fourth = wait_for_new_hash(&host, "web", Some(&third)).await;
    assert_ne!(fourth, third);

    assert_eq!(hash(&host, "plain").await, None, "it is not enabled for this Deployment");
    let event = || async {
        let events = host.server.events().await;
        events.into_iter().find(|event| event.reason.as_deref() == Some("ConfigMapsChanged"))
    };
    host.wait("an Event about it", event).await;
}
