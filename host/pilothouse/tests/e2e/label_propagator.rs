//! The example `label-propagator`: an `index` trigger on a field index, from a Namespace to its ConfigMaps.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Guest, Host};

const PLUGIN: &str = "label-propagator";

async fn host_with_plugin(labels: &[&str]) -> Host {
    let host = Host::start().await;
    host.write_sidecar(PLUGIN, &format!("config: {}\n", json!({"labels": labels})));
    host.install_plugin(PLUGIN, &Guest::LabelPropagator.wasm());
    host.wait_for_state(PLUGIN, "running").await;
    host
}

async fn label_namespace(host: &Host, labels: Value) {
    let namespaces: Api<Namespace> = Api::all(host.server.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    let labelled = namespaces.patch(&host.server.namespace, &PatchParams::default(), &patch).await;
    labelled.expect("the namespace is labelled");
}

async fn create(host: &Host, name: &str, labels: Value) {
    let manifest = json!({"metadata": {"name": name, "labels": labels}, "data": {"mode": "fast"}});
    let map: ConfigMap = serde_json::from_value(manifest).expect("a config map");
    host.server.config_maps().create(&PostParams::default(), &map).await.expect("created");
}

/// Waits until a ConfigMap has exactly these labels.
async fn wait_for_labels(host: &Host, name: &str, expected: &[(&str, &str)]) {
    let expected = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    host.wait(&format!("{name} to have the labels {expected:?}"), || async {
        let map = host.server.config_maps().get(name).await.expect("it exists");
        (map.metadata.labels.unwrap_or_default() == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn config_maps_follow_the_labels_of_their_namespace() {
    let host = host_with_plugin(&["team", "cost-centre"]).await;
    create(&host, "before", json!({"app": "web"})).await;
    label_namespace(&host, json!({"team": "blue", "tier": "gold"})).await;
    wait_for_labels(&host, "before", &[("app", "web"), ("team", "blue")]).await;

    // A ConfigMap that is created later, and a label that another client changes.
    create(&host, "later", json!({})).await;
    wait_for_labels(&host, "later", &[("team", "blue")]).await;
    let drift = Patch::Merge(json!({"metadata": {"labels": {"team": "red"}}}));
    host.server.config_maps().patch("later", &PatchParams::default(), &drift).await.expect("patched");
    wait_for_labels(&host, "later", &[("team", "blue")]).await;

    // A change of the Namespace updates all its ConfigMaps.
    label_namespace(&host, json!({"team": "green", "cost-centre": "7"})).await;
    wait_for_labels(&host, "before", &[("app", "web"), ("cost-centre", "7"), ("team", "green")]).await;
    wait_for_labels(&host, "later", &[("cost-centre", "7"), ("team", "green")]).await;
    label_namespace(&host, json!({"cost-centre": null})).await;
    wait_for_labels(&host, "before", &[("app", "web"), ("team", "green")]).await;
}

/// Server-side apply tracks which labels the plugin owns, so labels of other managers are not removed.
#[tokio::test(flavor = "multi_thread")]
async fn labels_of_other_managers_are_kept_when_the_namespace_has_none() {
    let host = host_with_plugin(&["team"]).await;
    create(&host, "theirs", json!({"team": "red"})).await;
    create(&host, "witness", json!({})).await;
    label_namespace(&host, json!({"team": "blue"})).await;
    wait_for_labels(&host, "witness", &[("team", "blue")]).await;
    wait_for_labels(&host, "theirs", &[("team", "blue")]).await;
    label_namespace(&host, json!({"team": null})).await;
    wait_for_labels(&host, "witness", &[]).await;
    create(&host, "new", json!({"team": "red"})).await;
    let key = format!("{}/new", host.server.namespace);
    host.wait("the plugin to reconcile the new ConfigMap", || async {
        host.log().lines().any(|line| line.contains("propagated") && line.contains(&key)).then_some(())
    })
    .await;
    wait_for_labels(&host, "new", &[("team", "red")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_config_map_is_not_recreated() {
    let host = host_with_plugin(&["team"]).await;
    for number in 0..20 {
        create(&host, &format!("short-lived-{number}"), json!({})).await;
    }
    label_namespace(&host, json!({"team": "blue"})).await;
    let all = kube::api::ListParams::default();
    let deleted = host.server.config_maps().delete_collection(&DeleteParams::default(), &all).await;
    deleted.expect("all are deleted");
    create(&host, "last", json!({})).await;
    wait_for_labels(&host, "last", &[("team", "blue")]).await;
    let left = host.server.config_maps().list(&all).await.expect("a list");
    let names: Vec<_> = left.items.into_iter().filter_map(|map| map.metadata.name).collect();
    assert!(names.iter().all(|name| !name.starts_with("short-lived")), "{names:?}");
}
