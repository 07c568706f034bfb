//! Watches and indexes of other plugins are not there, by whatever name they are asked for.

use serde_json::json;

use super::{is_said, sidecar};
use crate::harness::{Host, wat, wat_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_a_neighbour_is_unknown() {
    let host = Host::start().await;
    let quiet = ["$in-describe", "$in-reconcile", "$in-observe", "$in-index"].map(|call| (call, "$nothing"));
    host.sidecar("neighbour", &sidecar(&host, "users", &json!({})));
    host.drop_in("neighbour", &wat_with("faulty", &quiet));
    host.drop_in("nosy", &wat("wish"));
    host.wait_for_state("neighbour", "running").await;
    host.wait_for_state("nosy", "running").await;
    // The wish's first letter is what to do, the whole is the name to ask for.
    host.server.sandboxed("a", json!({"wish": "users"})).await;
    let said = "reconcile trapped: unknown watch \"users\": the descriptor declares configmaps";
    is_said(&host, "nosy", said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_of_a_neighbour_is_unknown_though_the_cache_is_shared() {
    let host = Host::start().await;
    let indexes = json!({"indexes": [{"name": "team", "computed": true}]});
    host.sidecar("neighbour", &sidecar(&host, "maps", &indexes));
    host.drop_in("neighbour", &wat("every"));
    let other = json!({"indexes": [{"name": "mine", "label": "test"}]});
    host.sidecar("nosy", &sidecar(&host, "maps", &other));
    host.drop_in("nosy", &wat("every"));
    host.wait_for_state("neighbour", "running").await;
    host.wait_for_state("nosy", "running").await;
    host.server.sandboxed("a", json!({"team": "red", "ask": "red"})).await;
    is_said(&host, "neighbour", "red: a").await;
    let said = "reconcile trapped: unknown index \"team\" of watch \"maps\": the descriptor declares mine";
    is_said(&host, "nosy", said).await;
}
