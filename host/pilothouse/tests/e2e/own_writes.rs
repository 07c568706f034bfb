//! A plugin's own writes, when the answer or the watch is late or never comes.

use serde_json::json;

use crate::harness::{Guest, Host, Options};

async fn start() -> Option<Host> {
    let host = Host::start_with(Options { test_faults: true, ..Options::default() }).await;
    if host.server.skips("it needs fault injection") {
        return None;
    }
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    Some(host)
}

async fn arm(host: &Host, fault: serde_json::Value) {
    let request =
        http::Request::post("/debug/faults").body(fault.to_string().into_bytes()).expect("a request");
    host.server.client.request_text(request).await.expect("armed");
}

/// The plugin asks its cache before it creates. If the retry came before the outcome was known, it could find nothing and
/// fail at an object that it made itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_carried_out_and_answered_with_an_error_is_known_before_the_retry() {
    let Some(host) = start().await else { return };
    host.server.script("one", "log:ready").await;
    host.wait_until_said("conformance", "ready", 1).await;
    arm(&host, json!({"verb": "create", "resource": "configmaps", "code": 500, "afterwards": true})).await;
    host.server.set_data("one", "action", "create:record").await;
    let plugin = host
        .wait_for_plugin("conformance", "a success after an error", |plugin| {
            plugin["counters"]["errors"] == 1 && plugin["counters"]["succeeded"].as_u64() >= Some(2)
        })
        .await;
    assert_eq!(plugin["counters"]["unknownWrites"], 1, "{plugin:#}");
    assert_eq!(plugin["counters"]["terminalErrors"], 0, "{plugin:#}");
    assert_eq!(host.server.requests("create", "v1/configmaps").await, 2, "the script, and the record once");
    assert!(host.server.requests("get", "v1/configmaps").await >= 1);
}

/// The reconcile is cut off while its request is on the way; the key waits for the request, not for the reconcile.
#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_that_is_cut_off_leaves_its_key_to_the_request_that_it_sent() {
    let Some(host) = start().await else { return };
    host.sidecar("conformance", "limits: {reconcileTimeout: 300ms}\n");
    host.wait_for_generation("conformance", 2).await;
    host.server.script("one", "log:ready").await;
    host.wait_until_said("conformance", "ready", 1).await;
    arm(&host, json!({"verb": "create", "resource": "configmaps", "delayMillis": 1500})).await;
    host.server.set_data("one", "action", "create:record").await;
    let plugin = host
        .wait_for_plugin("conformance", "a success after a time-out", |plugin| {
            // A machine that is busy may make other attempts late, too.
            plugin["counters"]["timeouts"].as_u64() >= Some(1)
                && plugin["counters"]["succeeded"].as_u64() >= Some(2)
        })
        .await;
    assert_eq!(plugin["counters"]["terminalErrors"], 0, "{plugin:#}");
    assert_eq!(plugin["counters"]["unknownWrites"], 0, "its answer came: {plugin:#}");
    assert!(host.server.data("record").await.contains_key("version"));
}

/// The file is removed while a request is on the way, and comes back before its answer. The plugin that comes must not
/// look at the key before: it would find nothing, and fail at an object that the one before it made.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_comes_back_waits_for_the_requests_of_the_one_before() {
    let Some(host) = start().await else { return };
    host.sidecar("conformance", "limits: {reconcileTimeout: 300ms}\n");
    host.wait_for_generation("conformance", 2).await;
    host.server.script("one", "log:ready").await;
    host.wait_until_said("conformance", "ready", 1).await;
    arm(&host, json!({"verb": "create", "resource": "configmaps", "delayMillis": 4000})).await;
    host.server.set_data("one", "action", "create:record").await;
    host.wait_for_plugin("conformance", "a time-out", |plugin| {
        plugin["counters"]["timeouts"].as_u64() >= Some(1)
    })
    .await;
    let file = host.plugins().join("conformance.wasm");
    std::fs::remove_file(&file).expect("removed");
    host.wait_for_state("conformance", "stopped").await;
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    assert!(host.server.data("record").await.contains_key("version"), "it runs before the answer");
    let plugin = host
        .wait_for_plugin("conformance", "its look at the key", |plugin| {
            plugin["counters"]["succeeded"].as_u64() >= Some(2)
        })
        .await;
    assert_eq!(plugin["counters"]["terminalErrors"], 0, "{plugin:#}");
    assert_eq!(host.server.requests("create", "v1/configmaps").await, 2, "the script, and the record once");
}
