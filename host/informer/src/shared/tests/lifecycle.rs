//! Life cycle: subscribing, unsubscribing, syncing, resyncing, stopping, and restarting after a panic.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_gets_cached_objects_then_live_events() {
    let cluster = Cluster::new();
    let early = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2)]).await;
    body.modified(&pod("b", 6));
    summaries(&early, 3).await;
    let late = cluster.subscribe(pods_key());
    assert!(!late.has_synced());
    body.modified(&pod("a", 7));
    assert_eq!(summaries(&late, 3).await, ["*+a@1", "*+b@6", "a@1>7"]);
    assert!(late.has_synced());
    assert!(nothing_more(&late).await);
}

#[tokio::test(start_paused = true)]
async fn subscribing_after_stop_is_an_error() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    cluster.registry.stop().await;
    cluster.registry.stop().await;
    let refused = cluster.registry.subscribe(pods_key(), SubscribeOptions::default());
    assert_eq!(refused.err(), Some(SubscribeError::Stopped));
    assert!(subscription.next_batch().await.is_none());
    assert!(!subscription.synced().await);
    drop(subscription);
}

#[tokio::test(start_paused = true)]
async fn stop_is_prompt_and_nothing_is_delivered_afterwards() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1)]).await;
    settle().await;
    body.modified(&pod("a", 6));
    cluster.registry.stop().await;
    assert!(body.is_dropped());
    body.modified(&pod("a", 7));
    assert!(subscription.next_batch().await.is_none(), "not even pending notifications");
}

#[tokio::test(start_paused = true)]
async fn only_subscribers_that_are_due_get_a_resync() {
    let cluster = Cluster::new();
    let with_resync = |seconds: u64| {
        let options =
            SubscribeOptions { resync: Some(Duration::from_secs(seconds)), ..SubscribeOptions::default() };
        cluster.registry.subscribe(pods_key(), options).expect("open")
    };
    let (ten, thirty, never) = (with_resync(10), with_resync(30), cluster.subscribe(pods_key()));
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1)]).await;
    for subscription in [&ten, &thirty, &never] {
        assert_eq!(summaries(subscription, 1).await, ["*+a@1"]);
    }
    for _ in 0..2 {
        advance(Duration::from_secs(10)).await;
        assert_eq!(summaries(&ten, 1).await, ["a@1>1"]);
        settle().await;
        assert!(cluster.registry.informers()[0].subscribers[1].backlog == 0);
    }
    advance(Duration::from_secs(10)).await;
    assert_eq!(summaries(&ten, 1).await, ["a@1>1"]);
    assert_eq!(summaries(&thirty, 1).await, ["a@1>1"]);
    body.modified(&pod("a", 6));
    assert_eq!(summaries(&never, 1).await, ["a@1>6"], "no resync before it");
    assert_eq!(summaries(&thirty, 1).await, ["a@1>6"]);
    advance(Duration::from_secs(10)).await;
    assert_eq!(summaries(&ten, 2).await, ["a@1>6", "a@6>6"]);
    assert!(nothing_more(&thirty).await, "its next resync is not due");
}

#[tokio::test(start_paused = true)]
async fn resync_periods_below_a_second_are_raised() {
    let cluster = Cluster::new();
    let options = SubscribeOptions { resync: Some(Duration::from_millis(1)), ..SubscribeOptions::default() };
    let subscription = cluster.registry.subscribe(pods_key(), options).expect("open");
    let mut server = cluster.server(0);
    let _body = server.serve("5", &[pod("a", 1)]).await;
    summaries(&subscription, 1).await;
    advance(Duration::from_millis(900)).await;
    settle().await;
    assert_eq!(cluster.registry.informers()[0].subscribers[0].backlog, 0);
    advance(Duration::from_millis(200)).await;
    assert_eq!(summaries(&subscription, 1).await, ["a@1>1"]);
}

#[tokio::test(start_paused = true)]
async fn has_synced_is_true_once_this_subscriber_took_the_initial_list() {
    let cluster = Cluster::new();
    let options = SubscribeOptions { batch: 2, ..SubscribeOptions::default() };
    let subscription = cluster.registry.subscribe(pods_key(), options).expect("open");
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2), pod("c", 3)]).await;
    settle().await;
    assert!(subscription.status().synced && !subscription.has_synced());
    subscription.next_batch().await;
    assert!(!subscription.has_synced());
    body.modified(&pod("c", 6));
    settle().await;
    assert_eq!(
        subscription.next_batch().await.expect("open").len(),
        2,
        "the last initial one and a live one"
    );
    assert!(subscription.has_synced() && subscription.synced().await);
}

#[tokio::test(start_paused = true)]
async fn an_empty_first_list_is_synced_at_once() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    settle().await;
    assert!(!subscription.has_synced());
    let _body = server.serve("5", &[]).await;
    assert!(subscription.synced().await);
}

#[tokio::test(start_paused = true)]
async fn wait_for_cache_sync_waits_for_all_caches() {
    let cluster = Cluster::new();
    let first = cluster.subscribe(pods_key().in_namespace("one"));
    let second = cluster.subscribe(pods_key().in_namespace("two"));
    let mut waiting = tokio_test::task::spawn(wait_for_cache_sync([&first, &second]));
    assert!(waiting.poll().is_pending());
    let _one = cluster.server(0).serve("5", &[]).await;
    settle().await;
    assert!(waiting.poll().is_pending());
    let _two = cluster.server(1).serve("5", &[pod("a", 1).namespace("two")]).await;
    settle().await;
    assert!(waiting.poll().is_pending(), "the initial list has not been taken yet");
    second.next_batch().await;
    assert!(waiting.is_woken());
    assert_eq!(waiting.poll(), std::task::Poll::Ready(true));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_next_batch_loses_nothing() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("1", &[]).await;
    let mut seen = BTreeMap::new();
    for version in 2..100_u64 {
        // Polled once and dropped: no event may get lost, whether one is pending at that moment or not.
        let mut cancelled = tokio_test::task::spawn(subscription.next_batch());
        if let std::task::Poll::Ready(batch) = cancelled.poll() {
            batch.expect("open").iter().for_each(|n| drop(seen.insert(n.key().to_string(), summary(n))));
        }
        drop(cancelled);
        body.added(&pod(&format!("p{version}"), version));
        if version % 3 == 0 {
            settle().await;
        }
    }
    while seen.len() < 98 {
        subscription
            .next_batch()
            .await
            .expect("open")
            .iter()
            .for_each(|n| drop(seen.insert(n.key().to_string(), summary(n))));
    }
    assert!(nothing_more(&subscription).await);
}

#[tokio::test(start_paused = true)]
async fn the_status_reports_the_failure_that_blocks_a_subscriber() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut changes = subscription.status_changes();
    let mut server = cluster.server(0);
    server.list().await.1.fail(Failure::response(404, None, b"404 page not found"));
    let failed = changes.wait_for(|status| status.error.is_some()).await.expect("running").to_string();
    assert!(failed.contains("cannot list pods.v1 (GET /api/v1/pods): HTTP 404"), "{failed}");
    assert!(failed.contains("install the CRD"), "{failed}");
    let _body = server.serve("5", &[]).await;
    let recovered =
        changes.wait_for(|status| status.synced && status.error.is_none()).await.expect("running").clone();
    assert_eq!((recovered.list_requests, recovered.failures), (2, 1));
}

/// Panics on the first lists.
struct PanickingListWatch {
    panics: std::sync::atomic::AtomicU32,
    inner: Arc<dyn ListWatch>,
}

#[async_trait::async_trait]
impl ListWatch for PanickingListWatch {
    async fn list(&self, params: &crate::ListParams) -> Result<crate::ByteStream, Failure> {
        use std::sync::atomic::Ordering::Relaxed;
        if self.panics.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            panic!("a defect of the list-watch")
        }
        self.inner.list(params).await
    }

    async fn watch(&self, params: &crate::WatchParams) -> Result<crate::ByteStream, Failure> {
        self.inner.watch(params).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_informer_reports_it_and_is_restarted() {
    let (mut server, list_watch) = scripted_server();
    let factory = move |_: &InformerKey| -> Arc<dyn ListWatch> {
        let inner: Arc<dyn ListWatch> = list_watch.clone();
        Arc::new(PanickingListWatch { panics: 2.into(), inner })
    };
    let options = InformerOptions { streaming_list: false, ..InformerOptions::default() };
    let registry = InformerRegistry::new(factory, options);
    let subscription =
        registry.subscribe(pods_key(), SubscribeOptions::default()).expect("the registry is open");
    let mut changes = subscription.status_changes();
    let status = changes.wait_for(|status| status.failures == 2).await.expect("it goes on").to_string();
    assert!(status.starts_with("waiting to try again, not synced: "), "{status}");
    assert!(status.contains("panicked: a defect of the list-watch; started again in 200ms"), "{status}");
    let _body = server.serve("5", &[pod("a", 1)]).await;
    assert_eq!(summaries(&subscription, 1).await, ["*+a@1"]);
    let status = changes.wait_for(|status| status.error.is_none()).await.expect("it goes on").clone();
    assert_eq!((status.failures, status.synced), (2, true), "the failure count is kept");
    // A later subscriber, such as the next version of a plugin, shares the restarted informer.
    let later = registry.subscribe(pods_key(), SubscribeOptions::default()).expect("the registry is open");
    assert_eq!(summaries(&later, 1).await, ["*+a@1"]);
    assert_eq!(registry.informers().len(), 1);
    registry.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_interrupted_by_a_panic_is_delivered_after_the_restart() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let _body = server.serve("5", &[pod("a", 1)]).await;
    assert_eq!(summaries(&subscription, 1).await, ["*+a@1"]);
    // The state after a panic between the removal of the object from the cache and the first push.
    let informer = Arc::clone(&subscription.subscriber.informer.lock());
    let key = pod("a", 1).object().key().clone();
    let stored = informer.store.get(&key).expect("it is there");
    informer.store.delete(&key, Some("6"));
    let deletion = pilothouse_model::Deletion { last: pod("a", 6).object(), final_state_unknown: false };
    informer.subscribers.lock().set_pending_deletion(stored, deletion);
    informer.finish_deletion();
    assert_eq!(summaries(&subscription, 1).await, ["-a@6"]);
    informer.finish_deletion();
    assert!(nothing_more(&subscription).await);
}

#[test]
fn subscribing_outside_a_runtime_is_an_error() {
    let cluster = Cluster::new();
    let refused = cluster.registry.subscribe(pods_key(), SubscribeOptions::default());
    assert_eq!(refused.err(), Some(SubscribeError::NoRuntime));
}
