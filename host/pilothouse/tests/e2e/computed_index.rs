//! Indexes whose values the plugin computes.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::harness::{Host, another_version, wat};

/// A host with `every.wat` ready to be dropped in: its watch `maps` has the computed index `team`, and a Secret queues the
/// maps of the team that is called like it.
async fn indexing() -> Host {
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
    // An object that a busy machine takes too long for would be left out.
    host.sidecar("indexer", &json!({"config": config, "limits": {"indexTimeout": "5m"}}).to_string());
    host
}

async fn found(host: &Host) -> Vec<String> {
    let mut found: Vec<_> =
        host.said("indexer").await.into_iter().filter(|said| said.starts_with("red: ")).collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn b21_a_computed_index_is_whole_before_the_first_reconcile_and_computed_again_by_a_new_version() {
    let host = indexing().await;
    for (name, team) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        host.server.observed(name, json!({"team": team})).await;
    }
    host.server.observed("asks", json!({"ask": "red"})).await;
    let wasm = wat("every");
    host.drop_in("indexer", &wasm);
    host.wait_until_said("indexer", "red: c", 1).await;
    assert_eq!(found(&host).await, ["red: a", "red: c"]);
    host.drop_in("indexer", &another_version(&wasm, 2));
    host.wait_for_generation("indexer", 2).await;
    host.wait_until_said("indexer", "red: c", 2).await;
    assert_eq!(found(&host).await, ["red: a", "red: a", "red: c", "red: c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b22_a_change_is_in_the_index_before_its_own_reconcile() {
    let host = indexing().await;
    host.drop_in("indexer", &wat("every"));
    host.wait_for_state("indexer", "running").await;
    host.server.observed("b", json!({"team": "blue", "ask": "red"})).await;
    for round in 1..=10 {
        host.server.set_data("b", "team", "red").await;
        // Said by the reconcile of this very change, and by no later one.
        host.wait_until_said("indexer", "red: b", round).await;
        host.server.set_data("b", "team", "blue").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_own_write_is_in_the_index_at_once() {
    let host = indexing().await;
    host.drop_in("indexer", &wat("every"));
    host.wait_for_state("indexer", "running").await;
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"team": "green"},
        "metadata": {"name": "made", "namespace": host.server.namespace, "labels": {"test": "observer"}}
    });
    host.server.observed("maker", json!({"create": manifest.to_string(), "ask": "green"})).await;
    // The same reconcile that creates it asks for it, once.
    host.wait_until_said("indexer", "green: made", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_leaves_the_object_out_until_it_changes() {
    let host = indexing().await;
    for (name, wish) in [("a", "fine"), ("bad", "no-index")] {
        host.server.observed(name, json!({"team": "red", "wish": wish})).await;
    }
    host.server.observed("asks", json!({"ask": "red"})).await;
    host.drop_in("indexer", &wat("every"));
    host.wait_until_said("indexer", "red: a", 1).await;
    let said = host.said("indexer").await;
    assert!(!said.contains(&"red: bad".to_owned()), "{said:#?}");
    let warnings = said.iter().filter(|said| said.contains("left out until it changes")).count();
    assert_eq!(warnings, 1, "{said:#?}");
    assert_eq!(host.plugin("indexer").await["counters"]["indexErrors"], 1);
    let (_, metrics) = host.get("/metrics").await;
    assert!(metrics.contains("pilothouse_index_errors_total{controller=\"indexer\"} 1"), "{metrics}");
    host.server.set_data("bad", "wish", "fine").await;
    host.server.set_data("bad", "ask", "red").await;
    host.wait_until_said("indexer", "red: bad", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_finds_its_targets_by_a_computed_index() {
    let host = indexing().await;
    host.drop_in("indexer", &wat("every"));
    host.wait_for_state("indexer", "running").await;
    let team = format!("{}/cred", host.server.namespace);
    host.server.observed("user", json!({"team": team, "ask": team})).await;
    let says = format!("{team}: user");
    host.wait_until_said("indexer", &says, 1).await;
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "cred"}})).expect("a secret");
    let secrets: Api<Secret> = Api::namespaced(host.server.client.clone(), &host.server.namespace);
    secrets.create(&PostParams::default(), &secret).await.expect("created");
    host.wait_until_said("indexer", &says, 2).await;
}
