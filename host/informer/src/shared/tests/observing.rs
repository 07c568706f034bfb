//! What an operator sees: metrics and the state dump.

use pilothouse_model::{Delta, Replacement, Transform};

use super::*;
use crate::metrics::{Counters, InformerMetrics};
use crate::shared::informer::Informer;

impl Cluster {
    fn only_metrics(&self) -> InformerMetrics {
        let mut metrics = self.registry.metrics();
        assert_eq!(metrics.len(), 1, "{metrics:?}");
        metrics.remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_lists_watches_and_events() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let (_, request) = server.list().await;
    advance(Duration::from_secs(2)).await;
    request.items("5", &[pod("a", 1), pod("b", 2)]);
    let body = server.watch().await.1.open();
    body.modified(&pod("a", 6));
    body.bookmark(9);
    summaries(&subscription, 3).await;
    settle().await;
    let metrics = cluster.only_metrics();
    assert_eq!((metrics.resource.as_str(), metrics.name.as_str()), ("v1/pods", "all"));
    assert_eq!((metrics.lists, metrics.watches, metrics.events, metrics.short_watches), (1, 1, 2, 0));
    assert!(
        metrics.list_duration.count == 1 && metrics.list_duration.sum >= 2.0,
        "{:?}",
        metrics.list_duration
    );
    assert!((metrics.items_per_list.sum - 2.0).abs() < 1e-9, "{:?}", metrics.items_per_list);
    assert_eq!(metrics.last_resource_version, Some(9));
    assert_eq!((metrics.informers, metrics.synced, metrics.failing, metrics.subscribers), (1, 1, 0, 1));
    assert_eq!((metrics.store_objects, metrics.queue_depth, metrics.backlog), (2, 0, 0));
    assert!(metrics.received_bytes > 300, "{}", metrics.received_bytes);
    assert_eq!(metrics.watch_duration.count, 0, "the watch is open");

    advance(Duration::from_secs(3)).await;
    drop(body);
    let body = server.watch().await.1.open();
    drop(body);
    server.watch().await.1.status(500, "InternalError");
    settle().await;
    let metrics = cluster.only_metrics();
    assert_eq!((metrics.watches, metrics.short_watches, metrics.failures, metrics.failing), (3, 1, 1, 1));
    assert_eq!(metrics.watch_duration.count, 2, "{:?}", metrics.watch_duration);
    assert!((metrics.items_per_watch.sum - 2.0).abs() < 1e-9, "{:?}", metrics.items_per_watch);
}

/// A watch is short if it ends within a second without an event.
#[tokio::test(start_paused = true)]
async fn metrics_count_short_watches_and_time_only_complete_lists() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    server.list().await.1.open().cut();
    let body = server.serve("5", &[]).await;
    settle().await;
    let metrics = cluster.only_metrics();
    assert_eq!((metrics.lists, metrics.list_duration.count), (2, 1), "a cut list has no duration");
    body.added(&pod("a", 6));
    summaries(&subscription, 1).await;
    drop(body);
    let body = server.watch().await.1.open();
    settle().await;
    assert_eq!(cluster.only_metrics().short_watches, 0, "it was short, but delivered an event");
    advance(Duration::from_secs(1)).await;
    drop(body);
    let body = server.watch().await.1.open();
    settle().await;
    assert_eq!(cluster.only_metrics().short_watches, 0, "it delivered nothing, but lasted a second");
    advance(Duration::from_millis(999)).await;
    drop(body);
    settle().await;
    assert_eq!(cluster.only_metrics().short_watches, 1);
}

#[tokio::test(start_paused = true)]
async fn metrics_show_the_backlog_of_a_stuck_subscriber() {
    let cluster = Cluster::new();
    let options = SubscribeOptions { backlog: 4, ..SubscribeOptions::default() };
    let stuck = cluster.registry.subscribe(pods_key(), options).expect("open");
    let lively = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2)]).await;
    for version in 6..16 {
        body.modified(&pod("a", version));
    }
    summaries(&lively, 12).await;
    let metrics = cluster.only_metrics();
    assert_eq!((metrics.backlog, metrics.longest_backlog), (2, 2));
    assert_eq!(metrics.merged_notifications, 10, "twelve were pushed, two are pending");
    body.added(&pod("c", 16));
    body.deleted(&pod("c", 17));
    summaries(&lively, 2).await;
    assert_eq!(cluster.only_metrics().merged_notifications, 12, "c was created and deleted");
    drop((stuck, lively));
    assert_eq!(cluster.only_metrics().merged_notifications, 12, "counters do not decrease");
}

#[tokio::test(start_paused = true)]
async fn metrics_count_stale_events_and_dropped_deltas() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    // A list may contain objects newer than its version; the watch then repeats the events in between.
    let body = server.serve("5", &[pod("a", 8)]).await;
    body.modified(&pod("a", 6));
    body.deleted(&pod("stranger", 9));
    body.modified(&pod("a", 10));
    summaries(&subscription, 2).await;
    let metrics = cluster.only_metrics();
    assert_eq!((metrics.stale_events, metrics.dropped_deltas, metrics.merged_deltas), (1, 1, 0));
    assert_eq!(subscription.status().stale_events, 1);
    // A deletion that is sent twice in one chunk is delivered once.
    let deletion = format!("{{\"type\":\"DELETED\",\"object\":{}}}\n", pod("a", 11).json());
    body.raw(&deletion.repeat(2));
    assert_eq!(summaries(&subscription, 1).await, ["-a@11"]);
    assert_eq!(cluster.only_metrics().merged_deltas, 1);
}

fn informer() -> Informer {
    Informer::new(pods_key(), &InformerOptions::default(), Arc::new(Counters::new()))
}

fn list(version: &str, pods: &[Pod]) -> Delta {
    let items = pods.iter().map(Pod::object).collect();
    Delta::Replaced(Replacement { items, resource_version: version.to_owned() })
}

#[test]
fn gauges_add_up_over_informers_with_the_same_labels() {
    let informers = [informer(), informer()];
    let mut metrics = InformerMetrics::default();
    for informer in &informers {
        informer.apply(list("5", &[pod("a", 1)]));
        informer.queue.push(Delta::Added(pod("b", 6).object()));
        informer.queue.push(Delta::Added(pod("c", 7).object()));
        informer.add_gauges(&mut metrics);
    }
    assert_eq!((metrics.informers, metrics.synced, metrics.queue_depth), (2, 2, 4));
    assert_eq!(metrics.store_objects, 2);
    assert_eq!(metrics.store_bytes, 2 * informers[0].store.memory_size());
}

#[test]
fn only_the_first_list_changes_the_status() {
    let informer = informer();
    let mut changes = informer.status_changes();
    informer.apply(list("5", &[]));
    assert!(changes.has_changed().expect("it exists") && changes.borrow_and_update().synced);
    informer.apply(list("6", &[]));
    assert!(!changes.has_changed().expect("it exists"));
}

#[tokio::test(start_paused = true)]
async fn counters_outlive_informers_and_have_no_namespace_or_selector_labels() {
    let cluster = Cluster::new();
    let labels = |text: &str| LabelSelector::parse(text).expect("a selector");
    let trimmed = Transform::standard().with_keep(["spec"]);
    let keys = [
        pods_key().in_namespace("one"),
        pods_key().in_namespace("two"),
        pods_key().in_namespace("three").with_labels(labels("app=a")),
        pods_key().in_namespace("four").with_labels(labels("app=b")),
        pods_key().with_transform(trimmed),
    ];
    let subscriptions: Vec<_> = keys.into_iter().map(|key| cluster.subscribe(key)).collect();
    let mut bodies = Vec::new();
    for position in 0..subscriptions.len() {
        bodies.push(cluster.server(position).serve("5", &[]).await);
    }
    settle().await;
    let shown = |cluster: &Cluster| -> Vec<_> {
        let all = cluster.registry.metrics();
        all.into_iter().map(|metrics| (metrics.name, metrics.informers, metrics.lists)).collect()
    };
    let expected = |informers: [usize; 3]| {
        let names = ["all-trimmed", "namespaced", "namespaced-selected"].map(str::to_owned);
        names.into_iter().zip(informers).zip([1, 2, 2]).map(|((name, now), lists)| (name, now, lists))
    };
    assert_eq!(shown(&cluster), expected([1, 2, 2]).collect::<Vec<_>>());
    drop(subscriptions);
    assert_eq!(shown(&cluster), expected([0, 0, 0]).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn the_dump_shows_every_component_without_object_content() {
    let cluster = Cluster::new();
    let options = SubscribeOptions { resync: Some(Duration::from_secs(60)), ..SubscribeOptions::default() };
    let wide = cluster.registry.subscribe(pods_key(), options).expect("open");
    let narrow = cluster.subscribe(pods_key().in_namespace("ns"));
    for (subscription, name) in [(&wide, "mine"), (&narrow, "app")] {
        subscription.add_index(name, IndexFn::label("app")).expect("a new name");
    }
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("secret-content", 1)]).await;
    summaries(&wide, 1).await;
    body.bookmark(8);
    settle().await;
    drop(body);
    server.watch().await.1.status(403, "Forbidden");
    settle().await;
    let dump = serde_json::to_value(cluster.registry.informers()).expect("JSON");
    let informer = &dump[0];
    let bytes = informer["store"]["bytes"].as_u64().expect("a number");
    assert!(bytes > pod("secret-content", 1).json().len() as u64 / 2, "{dump:#}");
    let message = informer["error"]["message"].as_str().expect("a text");
    assert!(message.contains("cannot watch pods.v1 (GET /api/v1/pods): HTTP 403"), "{message}");
    let expected = serde_json::json!([{
        "key": "pods.v1",
        "path": "/api/v1/pods",
        "projection": "full",
        "phase": "backing-off",
        "status": format!("waiting to try again: {message}"),
        "synced": true,
        "resourceVersion": "8",
        "error": {"kind": "forbidden", "code": 403, "message": message},
        "store": {"objects": 1, "bytes": bytes, "packed": 0, "resourceVersion": "8", "indexes": 1},
        "pendingDeltas": 0,
        "listRequests": 1,
        "watchRequests": 2,
        "events": 1,
        "failures": 1,
        "staleEvents": 0,
        "subscribers": [
            {"key": "pods.v1", "narrowed": false, "backlog": 0, "synced": true, "resyncSeconds": 60, "indexes": ["mine"]},
        ],
    }]);
    assert_eq!(dump[0], expected[0], "{dump:#}");
    assert!(!dump.to_string().contains("secret-content"), "no object's content");
    assert!(format!("{:?}", cluster.registry).contains("BackingOff"));
    let text = format!("{wide:?}");
    assert!(text.starts_with("Subscription { key: \"pods.v1\", store: StoreReader {"), "{text}");
    assert!(text.ends_with(", synced: true, .. }"), "{text}");
}
