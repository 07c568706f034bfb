//! Runs all faulty plugins at once next to a healthy plugin on the same objects. Each fault is reported and retried with backoff; the
//! healthy plugin is not affected and the host's memory stays bounded.

use serde_json::json;

use super::guests::{FAILING, FLOODING, Faulty, FaultyExport, OUTSIDE};
use crate::harness::{Guest, Host};

/// Maximum growth of the resident memory in bytes while plugins keep failing.
const MAX_GROWTH: usize = 256 << 20;

async fn is_reported(host: &Host, faulty: &Faulty) -> Option<()> {
    let expected = faulty.expected_error;
    if faulty.export == FaultyExport::Describe {
        let plugin = host.plugin(faulty.name).await;
        return plugin["error"].as_str().is_some_and(|error| error.contains(expected)).then_some(());
    }
    host.log_messages(faulty.name).await.iter().any(|line| line.contains(expected)).then_some(())
}

async fn wait_until_all_are_reported(host: &Host, faulty: &[Faulty]) {
    for faulty in faulty {
        let condition = format!("{}: {:?}", faulty.name, faulty.expected_error);
        host.wait(&condition, || is_reported(host, faulty)).await;
    }
}

/// Changes the object and waits until the healthy plugin has reconciled the change.
async fn run_healthy_round(host: &Host, round: usize) {
    let changed = host.server.set_data("one", "round", &round.to_string()).await;
    let version = changed.metadata.resource_version.expect("a version");
    host.wait("the healthy plugin to reconcile", || async {
        (host.server.data("one-record").await.get("resourceVersion") == Some(&version)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_reported_and_retried_without_affecting_a_healthy_plugin() {
    let host = Host::start().await;
    let faulty: Vec<_> = FAILING.into_iter().chain([OUTSIDE]).chain(FLOODING).collect();
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    faulty.iter().for_each(|faulty| faulty.install(&host));
    host.wait_for_state("conformance", "running").await;
    for faulty in faulty.iter().filter(|faulty| faulty.export != FaultyExport::Describe) {
        host.wait_for_plugin(faulty.name, "to be loaded", |plugin| plugin["generation"] == 1).await;
    }
    host.server.create_script("one", "copy:one-record").await;
    host.server.set_data("one", "filler", &"x".repeat(4096)).await;
    wait_until_all_are_reported(&host, &faulty).await;

    // Keys are retried with increasing delays. A plugin whose `describe` fails does not run, or is retried later.
    for failing in FAILING.iter().filter(|faulty| faulty.export == FaultyExport::Reconcile) {
        for delay in ["tried again in 5ms", "tried again in 10ms", "tried again in 20ms"] {
            host.wait(&format!("{}: {delay}", failing.name), || async {
                host.log_messages(failing.name).await.iter().any(|line| line.ends_with(delay)).then_some(())
            })
            .await;
        }
        let counters = host.plugin(failing.name).await["counters"].clone();
        let faults = counters["traps"].as_u64().unwrap_or(0) + counters["timeouts"].as_u64().unwrap_or(0);
        assert!(faults >= 3, "{}: {counters:#}", failing.name);
    }
    for failing in FAILING.iter().filter(|faulty| faulty.export == FaultyExport::Describe) {
        let plugin = host.plugin(failing.name).await;
        assert!(["failed", "backing-off"].contains(&plugin["state"].as_str().expect("text")), "{plugin:#}");
    }

    // The healthy plugin keeps working while the others keep failing.
    let before = host.resident_memory();
    for round in 0..10 {
        run_healthy_round(&host, round).await;
    }
    let after = host.resident_memory();
    if let (Some(before), Some(after)) = (before, after) {
        assert!(after < before + MAX_GROWTH, "{before} bytes before, {after} after");
    }
    let healthy = host.plugin("conformance").await;
    assert_eq!(
        (&healthy["state"], &healthy["counters"]["errors"]),
        (&json!("running"), &json!(0)),
        "{healthy:#}"
    );
    assert_eq!(host.get("/healthz").await.0, 200);
    assert_floods_are_bounded(&host).await;
}

/// Asserts that the excess output of the flooding plugins is dropped and counted.
async fn assert_floods_are_bounded(host: &Host) {
    let lines = host.log().lines().filter(|line| line.contains("a line of a flood")).count();
    assert!((1..20_000).contains(&lines), "{lines} lines were logged of the 20000 of a single call");
    let refused_samples = |scrape: &str| {
        let series = "pilothouse_guest_metrics_refused_total{controller=\"flood-of-series\"} ";
        let count = scrape.lines().find_map(|line| line.strip_prefix(series));
        count.and_then(|count| count.parse::<u64>().ok())
    };
    let scrape = host
        .wait("refused metric samples", || async {
            let (_, scrape) = host.get("/metrics").await;
            (refused_samples(&scrape) >= Some(2950)).then_some(scrape)
        })
        .await;
    let series = scrape
        .lines()
        .filter(|line| line.starts_with("pilothouse_guest_many{plugin=\"flood-of-series\""))
        .count();
    assert_eq!(series, 50);
    let messages = host.log_messages("flood-of-series").await;
    assert_eq!(
        messages.iter().filter(|line| line.contains("limits.metricSeries")).count(),
        1,
        "{messages:#?}"
    );
    host.wait_for_plugin("flood-of-events", "2000 dropped Events", |plugin| {
        plugin["counters"]["droppedEvents"].as_u64() >= Some(2000)
    })
    .await;
    host.wait_for_plugin("storm-on-client", "requests that waited", |plugin| {
        plugin["counters"]["throttledRequests"].as_u64() >= Some(1)
    })
    .await;
    host.wait_for_message(
        "storm-on-client",
        "requests wait: limits.clientQps is 5, limits.clientBurst 10",
        1,
    )
    .await;
}
