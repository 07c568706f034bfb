//! Every fault at once, beside a healthy plugin on the same objects: each is named for what it exceeded, is tried again with backoff, and costs
//! the healthy one no result and the host no memory.

use serde_json::json;

use super::guests::{FAILING, FLOODING, Faulty, In, OUTSIDE};
use crate::harness::{Guest, Host};

/// What the resident memory may grow by while plugins fail again and again.
const GROWTH: usize = 256 << 20;

async fn has_complained(host: &Host, faulty: &Faulty) -> Option<()> {
    if faulty.place == In::Describe {
        let plugin = host.plugin(faulty.name).await;
        return plugin["error"].as_str().is_some_and(|error| error.contains(faulty.complaint)).then_some(());
    }
    host.said(faulty.name).await.iter().any(|line| line.contains(faulty.complaint)).then_some(())
}

async fn all_have_complained(host: &Host, faulty: &[Faulty]) {
    for faulty in faulty {
        let what = format!("{}: {:?}", faulty.name, faulty.complaint);
        host.wait(&what, || has_complained(host, faulty)).await;
    }
}

/// Changes the object, and waits until the healthy plugin has seen the change and done its work.
async fn healthy_round(host: &Host, round: usize) {
    let changed = host.server.set_data("one", "round", &round.to_string()).await;
    let version = changed.metadata.resource_version.expect("a version");
    host.wait("the healthy plugin to reconcile", || async {
        (host.server.data("one-record").await.get("resourceVersion") == Some(&version)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_named_tried_again_and_kept_from_a_healthy_neighbour() {
    let host = Host::start().await;
    let faulty: Vec<_> = FAILING.into_iter().chain([OUTSIDE]).chain(FLOODING).collect();
    host.drop_in("conformance", &Guest::Conformance.wasm());
    faulty.iter().for_each(|faulty| faulty.drop_into(&host));
    host.wait_for_state("conformance", "running").await;
    for faulty in faulty.iter().filter(|faulty| faulty.place != In::Describe) {
        host.wait_for_plugin(faulty.name, "to be loaded", |plugin| plugin["generation"] == 1).await;
    }
    host.server.script("one", "copy:one-record").await;
    host.server.set_data("one", "filler", &"x".repeat(4096)).await;
    all_have_complained(&host, &faulty).await;

    // Each key comes again, later each time; a plugin of which nothing works is not run, or is tried again later.
    for failing in FAILING.iter().filter(|faulty| faulty.place == In::Reconcile) {
        for delay in ["tried again in 5ms", "tried again in 10ms", "tried again in 20ms"] {
            host.wait(&format!("{}: {delay}", failing.name), || async {
                host.said(failing.name).await.iter().any(|line| line.ends_with(delay)).then_some(())
            })
            .await;
        }
        let counters = host.plugin(failing.name).await["counters"].clone();
        let counted = counters["traps"].as_u64().unwrap_or(0) + counters["timeouts"].as_u64().unwrap_or(0);
        assert!(counted >= 3, "{}: {counters:#}", failing.name);
    }
    for failing in FAILING.iter().filter(|faulty| faulty.place == In::Describe) {
        let plugin = host.plugin(failing.name).await;
        assert!(["failed", "backing-off"].contains(&plugin["state"].as_str().expect("text")), "{plugin:#}");
    }

    // The healthy plugin does its work, each time, while its neighbours go on failing.
    let before = host.resident_memory();
    for round in 0..10 {
        healthy_round(&host, round).await;
    }
    let after = host.resident_memory();
    if let (Some(before), Some(after)) = (before, after) {
        assert!(after < before + GROWTH, "{before} bytes before, {after} after");
    }
    let healthy = host.plugin("conformance").await;
    assert_eq!(
        (&healthy["state"], &healthy["counters"]["errors"]),
        (&json!("running"), &json!(0)),
        "{healthy:#}"
    );
    assert_eq!(host.get("/healthz").await.0, 200);
    floods_are_bounded(&host).await;
}

/// What the flooding plugins did is cut, and counted, each at its own time.
async fn floods_are_bounded(host: &Host) {
    let lines = host.log().lines().filter(|line| line.contains("a line of a flood")).count();
    assert!((1..20_000).contains(&lines), "{lines} of the 20000 of a single call");
    let refused = |scrape: &str| {
        let is_it = "pilothouse_guest_metrics_refused_total{controller=\"flood-of-series\"} ";
        let count = scrape.lines().find_map(|line| line.strip_prefix(is_it));
        count.and_then(|count| count.parse::<u64>().ok())
    };
    let scrape = host
        .wait("refused series", || async {
            let (_, scrape) = host.get("/metrics").await;
            (refused(&scrape) >= Some(2950)).then_some(scrape)
        })
        .await;
    let series = scrape
        .lines()
        .filter(|line| line.starts_with("pilothouse_guest_many{plugin=\"flood-of-series\""))
        .count();
    assert_eq!(series, 50);
    let said = host.said("flood-of-series").await;
    assert_eq!(said.iter().filter(|line| line.contains("limits.metricSeries")).count(), 1, "{said:#?}");
    host.wait_for_plugin("flood-of-events", "2000 dropped Events", |plugin| {
        plugin["counters"]["droppedEvents"].as_u64() >= Some(2000)
    })
    .await;
    host.wait_for_plugin("storm-on-client", "requests that waited", |plugin| {
        plugin["counters"]["throttledRequests"].as_u64() >= Some(1)
    })
    .await;
    host.wait_until_said("storm-on-client", "requests wait: limits.clientQps is 5, limits.clientBurst 10", 1)
        .await;
}
