//! A plugin cannot access the watches and indexes of other plugins.

use serde_json::json;

use super::{sidecar, wait_for_log};
use crate::harness::{Host, wat, wat_with};

#[tokio::test(flavor = "multi_thread")]
async fn another_plugins_watch_is_unknown() {
    let host = Host::start().await;
    let quiet = ["$in-describe", "$in-reconcile", "$in-observe", "$in-index"].map(|call| (call, "$nothing"));
    host.write_sidecar("neighbour", &sidecar(&host, "users", &json!({})));
    host.install_plugin("neighbour", &wat_with("faulty", &quiet));
    host.install_plugin("nosy", &wat("wish"));
    host.wait_for_state("neighbour", "running").await;
    host.wait_for_state("nosy", "running").await;
    // The first letter of the wish selects the operation, and the whole wish is the name of the watch.
    host.server.create_sandboxed("a", json!({"wish": "users"})).await;
    let error = "reconcile trapped: unknown watch \"users\": the descriptor declares configmaps";
    wait_for_log(&host, "nosy", error).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_plugins_index_is_unknown_although_the_cache_is_shared() {
    let host = Host::start().await;
    let indexes = json!({"indexes": [{"name": "team", "computed": true}]});
    host.write_sidecar("neighbour", &sidecar(&host, "maps", &indexes));
    host.install_plugin("neighbour", &wat("every"));
    let other = json!({"indexes": [{"name": "mine", "label": "test"}]});
    host.write_sidecar("nosy", &sidecar(&host, "maps", &other));
    host.install_plugin("nosy", &wat("every"));
    host.wait_for_state("neighbour", "running").await;
    host.wait_for_state("nosy", "running").await;
    host.server.create_sandboxed("a", json!({"team": "red", "ask": "red"})).await;
    wait_for_log(&host, "neighbour", "red: a").await;
    let error = "reconcile trapped: unknown index \"team\" of watch \"maps\": the descriptor declares mine";
    wait_for_log(&host, "nosy", error).await;
}
