//! A plugin that traps, loops or allocates harms nobody but itself.

use crate::harness::{Guest, Host, wat};

/// Runs the faulty guest beside a healthy one on the same objects, and counts.
async fn is_contained(guest: &str, counter: &str, complaint: &str) {
    let host = Host::start().await;
    host.sidecar("faulty", "limits: {memory: 4Mi, reconcileTimeout: 200ms}\n");
    host.drop_in("faulty", &wat(guest));
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("faulty", "running").await;
    host.wait_for_state("conformance", "running").await;
    host.server.script("one", "copy:one-record").await;

    // The faulty one fails, and is tried again with growing delays.
    let faulty = host
        .wait_for_plugin("faulty", "three faults", |plugin| plugin["counters"][counter].as_u64() >= Some(3))
        .await;
    // After the fifth in a row it backs off.
    assert!(["running", "backing-off"].contains(&faulty["state"].as_str().expect("a word")), "{faulty:#}");
    let log = host.log();
    assert!(log.contains(complaint), "{complaint}\n{log}");
    assert!(log.contains("tried again in"), "{log}");

    // The healthy one has not noticed.
    for round in 0..5 {
        let changed = host.server.set_data("one", "round", &round.to_string()).await;
        let version = changed.metadata.resource_version.expect("a version");
        host.wait("the healthy plugin to reconcile", || async {
            (host.server.data("one-record").await.get("resourceVersion") == Some(&version)).then_some(())
        })
        .await;
    }
    let healthy = host.plugin("conformance").await;
    assert_eq!(healthy["counters"]["errors"], 0, "{healthy:#}");
    assert_eq!(host.get("/healthz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_traps_is_retried_and_harms_nobody() {
    is_contained("trap", "traps", "unreachable").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_loops_is_cut_and_harms_nobody() {
    is_contained("loop", "timeouts", "exceeded limits.reconcileTimeout").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_allocates_is_cut_and_harms_nobody() {
    is_contained("grow", "traps", "exceeded limits.memory").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_reaches_the_log_with_file_and_line() {
    let host = Host::start().await;
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.script("one", "panic:the sky is falling").await;
    host.wait("the panic in the plugin's log", || async {
        let log = String::from_utf8(host.pilothouse(&["logs", "conformance"]).stdout).expect("text");
        log.lines()
            .any(|line| line.contains("the sky is falling") && line.contains("src/lib.rs:"))
            .then_some(())
    })
    .await;
    // The next change finds a new instance, and the key is free again.
    host.server.set_data("one", "action", "copy:record").await;
    host.wait("the next reconcile", || async {
        host.server.data("record").await.contains_key("version").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_not_declared_is_denied_with_the_missing_rule() {
    let host = Host::start().await;
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.script("one", "denied").await;
    host.wait_for_plugin("conformance", "an error", |plugin| {
        plugin["counters"]["errors"].as_u64() >= Some(1)
    })
    .await;
    let log = host.log();
    assert!(log.contains("secrets") && log.contains("create"), "{log}");
    let secrets = host.server.get(&host.server.path("/api/v1", "secrets", "")).await;
    assert_eq!(secrets["items"].as_array().map(Vec::len), Some(0), "{secrets}");
}
