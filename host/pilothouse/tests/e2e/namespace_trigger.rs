//! The trigger `namespace`: a change of an object, or of its Namespace, queues all target objects in that namespace.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::harness::{Host, wat};

const TARGETS: u64 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn objects_and_namespaces_queue_all_targets_in_their_namespace() {
    let host = Host::start().await;
    let server = &host.server;
    let trigger = json!({"namespace": {"watch": "targets"}});
    let namespace = &server.namespace;
    let descriptor = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": [
        {"name": "targets", "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "test=target", "trigger": "self"},
        {"name": "secrets", "apiVersion": "v1", "kind": "Secret", "labelSelector": "test=source", "trigger": trigger},
        {"name": "namespaces", "apiVersion": "v1", "kind": "Namespace", "trigger": trigger,
            "fieldSelector": format!("metadata.name={namespace}")},
    ]});
    host.write_sidecar("plugin", &json!({"config": descriptor}).to_string());
    host.install_plugin("plugin", &wat("echo"));
    host.wait_for_state("plugin", "running").await;
    for number in 0..TARGETS {
        server.create_labelled(&format!("target-{number}"), "target", json!({})).await;
    }
    let reconciled = async |count: u64| {
        host.wait_for_plugin("plugin", &format!("{count} reconciles"), |plugin| {
            plugin["counters"]["reconciles"].as_u64() >= Some(count) && plugin["queueDepth"] == 0
        })
        .await["counters"]["reconciles"]
            .as_u64()
            .expect("a count")
    };
    let before = reconciled(TARGETS).await;

    let secret: Secret = serde_json::from_value(
        json!({"metadata": {"name": "source", "namespace": namespace, "labels": {"test": "source"}}}),
    )
    .expect("a secret");
    let secrets = Api::<Secret>::namespaced(server.client.clone(), namespace);
    secrets.create(&PostParams::default(), &secret).await.expect("created");
    let before = reconciled(before + TARGETS).await;

    let patch = Patch::Merge(json!({"metadata": {"labels": {"changed": "yes"}}}));
    let namespaces = Api::<Namespace>::all(server.client.clone());
    namespaces.patch(namespace, &PatchParams::default(), &patch).await.expect("patched");
    reconciled(before + TARGETS).await;
}
