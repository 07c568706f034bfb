//! Streams: single notifications, cancellation, merging, and the end.

use futures::StreamExt;

use super::*;

/// Takes one item of a stream, and abbreviates it.
async fn next(stream: &mut NotificationStream<'_>) -> String {
    summary(&with_timeout(stream.next()).await.expect("an open subscription"))
}

#[tokio::test(start_paused = true)]
async fn a_stream_returns_single_notifications_in_order_and_ends_with_the_informer() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2)]).await;
    body.modified(&pod("a", 6));
    let mut stream = subscription.stream();
    for expected in ["*+a@1", "*+b@2", "a@1>6"] {
        assert_eq!(next(&mut stream).await, expected);
    }
    cluster.registry.stop().await;
    assert!(stream.next().await.is_none());
    assert!(stream.next().await.is_none(), "it may be polled after its end");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_has_synced_when_its_stream_returned_the_last_initial_notification() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let _body = server.serve("5", &[pod("a", 1), pod("b", 2)]).await;
    let mut stream = subscription.stream();
    assert_eq!(next(&mut stream).await, "*+a@1");
    assert!(!subscription.has_synced(), "b has not been returned yet");
    assert_eq!(next(&mut stream).await, "*+b@2");
    assert!(subscription.has_synced());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_leaves_its_notifications_to_the_next_consumer() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2)]).await;
    let mut stream = subscription.stream();
    assert_eq!(next(&mut stream).await, "*+a@1");
    drop(stream);
    assert_eq!(summaries(&subscription, 1).await, ["*+b@2"]);

    let mut waiting = tokio_test::task::spawn(subscription.stream());
    assert!(waiting.poll_next().is_pending());
    body.added(&pod("c", 6));
    settle().await;
    assert!(waiting.is_woken());
    drop(waiting);
    assert_eq!(summaries(&subscription, 1).await, ["+c@6"], "the wake-up is passed on");
}

#[tokio::test(start_paused = true)]
async fn notifications_are_merged_while_a_stream_is_not_polled() {
    let cluster = Cluster::new();
    let options = SubscribeOptions::default().with_backlog(1);
    let subscription = cluster.registry.subscribe(pods_key(), options).expect("open");
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1)]).await;
    let mut stream = subscription.stream();
    assert_eq!(next(&mut stream).await, "*+a@1");
    for version in 6..16 {
        body.modified(&pod("a", version));
    }
    let store = subscription.store();
    while store.get(&ObjectKey::new("ns", "a")).expect("cached").resource_version() != "15" {
        tokio::task::yield_now().await;
    }
    assert_eq!(next(&mut stream).await, "a@1>15");
    drop(stream);
    assert!(nothing_more(&subscription).await);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_stream_that_owns_its_subscription_unsubscribes() {
    let cluster = Cluster::new();
    let stream = cluster.subscribe(pods_key()).into_stream();
    assert_eq!(cluster.registry.informers().len(), 1);
    drop(stream);
    assert!(cluster.registry.informers().is_empty());
}
