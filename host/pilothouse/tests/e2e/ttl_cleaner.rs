//! The example `ttl-cleaner`: uses requeue-after to delete ConfigMaps when their time to live has expired.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::harness::{Guest, Host};

const PLUGIN: &str = "ttl-cleaner";

async fn host_with_plugin() -> Host {
    let host = Host::start().await;
    host.install_plugin(PLUGIN, &Guest::TtlCleaner.wasm());
    host.wait_for_state(PLUGIN, "running").await;
    host
}

async fn create(host: &Host, name: &str, ttl: Option<&str>) {
    let annotations = ttl.map_or_else(|| json!({}), |ttl| json!({"ttl": ttl}));
    let manifest =
        json!({"metadata": {"name": name, "labels": {"cleanup": "ttl"}, "annotations": annotations}});
    let map: ConfigMap = serde_json::from_value(manifest).expect("a config map");
    host.server.config_maps().create(&PostParams::default(), &map).await.expect("created");
}

async fn set_ttl(host: &Host, name: &str, ttl: &str) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"ttl": ttl}}}));
    host.server.config_maps().patch(name, &PatchParams::default(), &patch).await.expect("patched");
}

async fn exists(host: &Host, name: &str) -> bool {
    host.server.config_maps().get_opt(name).await.expect("the server answers").is_some()
}

async fn wait_for_deletion(host: &Host, name: &str) {
    host.wait(&format!("{name} to be deleted"), || async { (!exists(host, name).await).then_some(()) }).await;
}

/// Waits for an Event with this reason about the ConfigMap and returns its type.
async fn wait_for_event(host: &Host, name: &str, reason: &str) -> String {
    host.wait(&format!("the Event {reason} about {name}"), || async {
        let events = host.server.events().await;
        let found = events.into_iter().find(|event| {
            let regarding = event.regarding.as_ref().and_then(|object| object.name.as_deref());
            regarding == Some(name) && event.reason.as_deref() == Some(reason)
        });
        found.and_then(|event| event.type_)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_expired_config_maps_are_deleted() {
    let host = host_with_plugin().await;
    create(&host, "for-ever", None).await;
    create(&host, "for-a-day", Some("24h")).await;
    create(&host, "for-a-moment", Some("1s")).await;
    wait_for_deletion(&host, "for-a-moment").await;
    assert_eq!(wait_for_event(&host, "for-a-moment", "Expired").await, "Normal");
    assert!(exists(&host, "for-ever").await && exists(&host, "for-a-day").await);

    // A change of the annotation takes effect at once, although a later requeue is pending.
    set_ttl(&host, "for-a-day", "1ms").await;
    wait_for_deletion(&host, "for-a-day").await;
    assert!(exists(&host, "for-ever").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_ttl_is_reported_once_and_can_be_corrected() {
    let host = host_with_plugin().await;
    create(&host, "mistaken", Some("tomorrow")).await;
    assert_eq!(wait_for_event(&host, "mistaken", "BadTTL").await, "Warning");
    host.wait_for_plugin(PLUGIN, "a terminal failure", |plugin| {
        plugin["counters"]["terminalErrors"] == 1 && plugin["counters"]["retries"] == 0
    })
    .await;
    assert!(exists(&host, "mistaken").await);
    set_ttl(&host, "mistaken", "1ms").await;
    wait_for_deletion(&host, "mistaken").await;
}
