//! The example `pod-counter`, an observer in C: gauges with counts of Pods from a computed index.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::harness::{Guest, Host};

async fn wait_for_count(host: &Host, node: &str, phase: &str, count: u32) {
    let labels =
        [format!("node=\"{node}\""), format!("phase=\"{phase}\""), "plugin=\"pod-counter\"".to_owned()];
    host.wait(&format!("{count} {phase} on {node}"), || async {
        let text = host.get("/metrics").await.1;
        let is_series = |line: &&str| {
            line.starts_with("pilothouse_guest_pods{")
                && labels.iter().all(|label| line.contains(label.as_str()))
        };
        let value: f64 = text.lines().find(is_series)?.rsplit(' ').next()?.parse().ok()?;
        (value.to_bits() == f64::from(count).to_bits()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_are_updated_for_both_the_old_and_the_new_index_value() {
    let host = Host::start().await;
    if host.server.skip_if_external("the test sets the phase of Pods itself") {
        return;
    }
    let pods: Api<Pod> = Api::namespaced(host.server.client.clone(), &host.server.namespace);
    let make = async |name: &str, node: &str| {
        let manifest = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx:1.29"}]},
        });
        let pod = serde_json::from_value(manifest).expect("a pod");
        pods.create(&PostParams::default(), &pod).await.expect("created");
    };
    let set_phase = async |name: &str, phase: &str| {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        pods.patch_status(name, &PatchParams::default(), &patch).await.expect("patched");
    };
    // Created before the plugin, so it is delivered as an initial notification.
    make("one", "west").await;
    set_phase("one", "Running").await;
    host.install_plugin("pod-counter", &Guest::PodCounter.wasm());
    host.wait_for_state("pod-counter", "running").await;
    wait_for_count(&host, "west", "Running", 1).await;

    make("two", "west").await;
    set_phase("two", "Running").await;
    wait_for_count(&host, "west", "Running", 2).await;

    set_phase("one", "Failed").await;
    wait_for_count(&host, "west", "Failed", 1).await;
    wait_for_count(&host, "west", "Running", 1).await;

    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete("two", &now).await.expect("deleted");
    wait_for_count(&host, "west", "Running", 0).await;
}
