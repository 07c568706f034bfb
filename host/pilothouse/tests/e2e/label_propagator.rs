//! An `index` trigger over a field index: a Namespace, and the ConfigMaps in it.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Guest, Host};

const PLUGIN: &str = "label-propagator";

async fn host_with_plugin(labels: &[&str]) -> Host {
    let host = Host::start().await;
    host.sidecar(PLUGIN, &format!("config: {}\n", json!({"labels": labels})));
    host.drop_in(PLUGIN, &Guest::LabelPropagator.wasm());
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
async fn labelled(host: &Host, name: &str, wanted: &[(&str, &str)]) {
    let wanted = wanted.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    host.wait(&format!("{name} to have {wanted:?}"), || async {
        let map = host.server.config_maps().get(name).await.expect("it is there");
        (map.metadata.labels.unwrap_or_default() == wanted).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespaces_labels_are_in_its_config_maps_and_follow_it() {
    let host = host_with_plugin(&["team", "cost-centre"]).await;
    create(&host, "before", json!({"app": "web"})).await;
    label_namespace(&host, json!({"team": "blue", "tier": "gold"})).await;
    labelled(&host, "before", &[("app", "web"), ("team", "blue")]).await;

    // One that comes later, and labels that somebody changes.
    create(&host, "later", json!({})).await;
    labelled(&host, "later", &[("team", "blue")]).await;
    let drift = Patch::Merge(json!({"metadata": {"labels": {"team": "red"}}}));
    host.server.config_maps().patch("later", &PatchParams::default(), &drift).await.expect("patched");
    labelled(&host, "later", &[("team", "blue")]).await;

    // The Namespace changes, and all its ConfigMaps with it.
    label_namespace(&host, json!({"team": "green", "cost-centre": "7"})).await;
    labelled(&host, "before", &[("app", "web"), ("cost-centre", "7"), ("team", "green")]).await;
    labelled(&host, "later", &[("cost-centre", "7"), ("team", "green")]).await;
    label_namespace(&host, json!({"cost-centre": null})).await;
    labelled(&host, "before", &[("app", "web"), ("team", "green")]).await;
}

/// The server knows which labels are the plugin's, so those of others stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_label_of_somebody_else_stays_while_the_namespace_has_none() {
    let host = host_with_plugin(&["team"]).await;
    create(&host, "theirs", json!({"team": "red"})).await;
    create(&host, "witness", json!({})).await;
    label_namespace(&host, json!({"team": "blue"})).await;
    labelled(&host, "witness", &[("team", "blue")]).await;
    labelled(&host, "theirs", &[("team", "blue")]).await;
    label_namespace(&host, json!({"team": null})).await;
    labelled(&host, "witness", &[]).await;
    create(&host, "new", json!({"team": "red"})).await;
    let key = format!("{}/new", host.server.namespace);
    host.wait("the plugin to have written what it has to say of it", || async {
        host.log().lines().any(|line| line.contains("propagated") && line.contains(&key)).then_some(())
    })
    .await;
    labelled(&host, "new", &[("team", "red")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_that_is_gone_is_not_made_again() {
    let host = host_with_plugin(&["team"]).await;
    for number in 0..20 {
        create(&host, &format!("short-lived-{number}"), json!({})).await;
    }
    label_namespace(&host, json!({"team": "blue"})).await;
    let all = kube::api::ListParams::default();
    let deleted = host.server.config_maps().delete_collection(&DeleteParams::default(), &all).await;
    deleted.expect("all are deleted");
    create(&host, "last", json!({})).await;
    labelled(&host, "last", &[("team", "blue")]).await;
    let left = host.server.config_maps().list(&all).await.expect("a list");
    let names: Vec<_> = left.items.into_iter().filter_map(|map| map.metadata.name).collect();
    assert!(names.iter().all(|name| !name.starts_with("short-lived")), "{names:?}");
}
