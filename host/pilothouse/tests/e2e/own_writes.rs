//! A plugin's own writes when the response or the watch event is late or missing.

use serde_json::json;

use crate::harness::{Guest, Host, Options};

async fn start() -> Option<Host> {
    let host = Host::start_with(Options { test_faults: true, ..Options::default() }).await;
    if host.server.skip_if_external("the test needs fault injection") {
        return None;
    }
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    Some(host)
}

async fn inject_fault(host: &Host, fault: serde_json::Value) {
    let request =
        http::Request::post("/debug/faults").body(fault.to_string().into_bytes()).expect("a request");
    host.server.client.request_text(request).await.expect("accepted");
}

/// The plugin checks its cache before it creates an object. If the retry ran before the outcome of the first write was known, it would
/// find nothing and fail because the object exists.
#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_of_a_write_is_known_before_the_retry_even_if_the_response_was_an_error() {
    let Some(host) = start().await else { return };
    host.server.create_script("one", "log:ready").await;
    host.wait_for_message("conformance", "ready", 1).await;
    inject_fault(&host, json!({"verb": "create", "resource": "configmaps", "code": 500, "afterwards": true}))
        .await;
    host.server.set_data("one", "action", "create:record").await;
    let plugin = host
        .wait_for_plugin("conformance", "a success after an error", |plugin| {
            plugin["counters"]["errors"] == 1 && plugin["counters"]["succeeded"].as_u64() >= Some(2)
        })
        .await;
    assert_eq!(plugin["counters"]["unknownWrites"], 1, "{plugin:#}");
    assert_eq!(plugin["counters"]["terminalErrors"], 0, "{plugin:#}");
    assert_eq!(
        host.server.request_count("create", "v1/configmaps").await,
        2,
        "the script, and the record once"
    );
    assert!(host.server.request_count("get", "v1/configmaps").await >= 1);
}

/// The reconcile times out while its request is in flight. The key is released when the request ends, not when the reconcile does.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_stays_held_until_the_request_of_a_timed_out_reconcile_ends() {
    let Some(host) = start().await else { return };
    host.write_sidecar("conformance", "limits: {reconcileTimeout: 300ms}\n");
    host.wait_for_generation("conformance", 2).await;
    host.server.create_script("one", "log:ready").await;
    host.wait_for_message("conformance", "ready", 1).await;
    inject_fault(&host, json!({"verb": "create", "resource": "configmaps", "delayMillis": 1500})).await;
    host.server.set_data("one", "action", "create:record").await;
    let plugin = host
        .wait_for_plugin("conformance", "a success after a time-out", |plugin| {
            // On a busy machine other attempts may time out, too.
            plugin["counters"]["timeouts"].as_u64() >= Some(1)
                && plugin["counters"]["succeeded"].as_u64() >= Some(2)
        })
        .await;
    assert_eq!(plugin["counters"]["terminalErrors"], 0, "{plugin:#}");
    assert_eq!(plugin["counters"]["unknownWrites"], 0, "its response arrived: {plugin:#}");
    assert!(host.server.data("record").await.contains_key("version"));
}

/// The file is removed while a request is in flight and added again before the response. The new plugin must not reconcile the key
/// before the response: it would not find the object and would fail because it exists.
#[tokio::test(flavor = "multi_thread")]
async fn a_readded_plugin_waits_for_requests_of_its_predecessor() {
    let Some(host) = start().await else { return };
    host.write_sidecar("conformance", "limits: {reconcileTimeout: 300ms}\n");
    host.wait_for_generation("conformance", 2).await;
    host.server.create_script("one", "log:ready").await;
    host.wait_for_message("conformance", "ready", 1).await;
    inject_fault(&host, json!({"verb": "create", "resource": "configmaps", "delayMillis": 4000})).await;
    host.server.set_data("one", "action", "create:record").await;
    host.wait_for_plugin("conformance", "a time-out", |plugin| {
        plugin["counters"]["timeouts"].as_u64() >= Some(1)
    })
    .await;
    let file = host.plugins().join("conformance.wasm");
    std::fs::remove_file(&file).expect("removed");
    host.wait_for_state("conformance", "stopped").await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    assert!(
        host.server.data("record").await.contains_key("version"),
        "the record was written before the plugin was running"
    );
    let plugin = host
        .wait_for_plugin("conformance", "a reconcile of the key", |plugin| {
            plugin["counters"]["succeeded"].as_u64() >= Some(2)
        })
        .await;
    assert_eq!(plugin["counters"]["terminalErrors"], 0, "{plugin:#}");
    assert_eq!(
        host.server.request_count("create", "v1/configmaps").await,
        2,
        "the script, and the record once"
    );
}
