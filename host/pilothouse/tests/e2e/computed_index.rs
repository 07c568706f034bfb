//! Indexes with values that the plugin computes.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::harness::{Host, another_version, wat};

/// Starts a host and writes a sidecar for `every.wat`: its watch `maps` has the computed index `team`, and a Secret queues the
/// maps whose team has the Secret's key.
async fn start_host() -> Host {
    let host = Host::start().await;
    let namespaces = json!([host.server.namespace]);
    let config = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "watches": [
            {"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "test=observer",
             "namespaces": namespaces, "trigger": "self", "indexes": [{"name": "team", "computed": true}]},
            {"name": "secrets", "apiVersion": "v1", "kind": "Secret", "namespaces": namespaces,
             "trigger": {"index": {"watch": "maps", "index": "team"}}}
        ],
        "writes": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    });
    // A generous timeout, because on a busy machine a slow object would be excluded from the index.
    host.write_sidecar("indexer", &json!({"config": config, "limits": {"indexTimeout": "5m"}}).to_string());
    host
}

/// Returns the log messages with the members of the team `red`, sorted.
async fn red_team(host: &Host) -> Vec<String> {
    let messages = host.log_messages("indexer").await;
    let mut members: Vec<_> = messages.into_iter().filter(|message| message.starts_with("red: ")).collect();
    members.sort();
    members
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computed_index_is_complete_before_the_first_reconcile_and_recomputed_after_a_reload() {
    let host = start_host().await;
    for (name, team) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        host.server.create_observed(name, json!({"team": team})).await;
    }
    host.server.create_observed("asks", json!({"ask": "red"})).await;
    let wasm = wat("every");
    host.install_plugin("indexer", &wasm);
    host.wait_for_message("indexer", "red: c", 1).await;
    assert_eq!(red_team(&host).await, ["red: a", "red: c"]);
    host.install_plugin("indexer", &another_version(&wasm, 2));
    host.wait_for_generation("indexer", 2).await;
    host.wait_for_message("indexer", "red: c", 2).await;
    assert_eq!(red_team(&host).await, ["red: a", "red: a", "red: c", "red: c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_in_the_index_before_its_own_reconcile() {
    let host = start_host().await;
    host.install_plugin("indexer", &wat("every"));
    host.wait_for_state("indexer", "running").await;
    host.server.create_observed("b", json!({"team": "blue", "ask": "red"})).await;
    for round in 1..=10 {
        host.server.set_data("b", "team", "red").await;
        // Logged by the reconcile of this change and not by a later one.
        host.wait_for_message("indexer", "red: b", round).await;
        host.server.set_data("b", "team", "blue").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_own_write_is_in_the_index_immediately() {
    let host = start_host().await;
    host.install_plugin("indexer", &wat("every"));
    host.wait_for_state("indexer", "running").await;
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"team": "green"},
        "metadata": {"name": "made", "namespace": host.server.namespace, "labels": {"test": "observer"}}
    });
    host.server.create_observed("maker", json!({"create": manifest.to_string(), "ask": "green"})).await;
    // The reconcile that creates the object also queries the index.
    host.wait_for_message("indexer", "green: made", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_excludes_the_object_from_the_index_until_it_changes() {
    let host = start_host().await;
    for (name, wish) in [("a", "fine"), ("bad", "no-index")] {
        host.server.create_observed(name, json!({"team": "red", "wish": wish})).await;
    }
    host.server.create_observed("asks", json!({"ask": "red"})).await;
    host.install_plugin("indexer", &wat("every"));
    host.wait_for_message("indexer", "red: a", 1).await;
    let messages = host.log_messages("indexer").await;
    assert!(!messages.contains(&"red: bad".to_owned()), "{messages:#?}");
    let warnings = messages.iter().filter(|message| message.contains("left out until it changes")).count();
    assert_eq!(warnings, 1, "{messages:#?}");
    assert_eq!(host.plugin("indexer").await["counters"]["indexErrors"], 1);
    let (_, metrics) = host.get("/metrics").await;
    assert!(metrics.contains("pilothouse_index_errors_total{controller=\"indexer\"} 1"), "{metrics}");
    host.server.set_data("bad", "wish", "fine").await;
    host.server.set_data("bad", "ask", "red").await;
    host.wait_for_message("indexer", "red: bad", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_finds_its_targets_by_a_computed_index() {
    let host = start_host().await;
    host.install_plugin("indexer", &wat("every"));
    host.wait_for_state("indexer", "running").await;
    let team = format!("{}/cred", host.server.namespace);
    host.server.create_observed("user", json!({"team": team, "ask": team})).await;
    let message = format!("{team}: user");
    host.wait_for_message("indexer", &message, 1).await;
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "cred"}})).expect("a secret");
    let secrets: Api<Secret> = Api::namespaced(host.server.client.clone(), &host.server.namespace);
    secrets.create(&PostParams::default(), &secret).await.expect("created");
    host.wait_for_message("indexer", &message, 2).await;
}
