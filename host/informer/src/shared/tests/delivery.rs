//! Delivery: the order of notifications, their relation to the cache, and independence of subscribers.

use std::task::Poll;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_cache_is_at_least_as_fresh_as_any_notification() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("1", &[]).await;
    let store = subscription.store();
    for version in 2..200_u64 {
        body.event(if version == 2 { "ADDED" } else { "MODIFIED" }, &pod("a", version));
        if version % 7 == 0 {
            for notification in subscription.next_batch().await.expect("open") {
                let notified: u64 = notification.object().resource_version().parse().expect("a number");
                let cached = store.get(notification.key()).expect("cached");
                assert!(cached.resource_version().parse::<u64>().expect("a number") >= notified);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replacement_swaps_the_store_then_delivers_tombstones_before_items() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    subscription.add_index("app", IndexFn::label("app")).expect("new");
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("z", 1), pod("b", 2), pod("a", 3)]).await;
    assert_eq!(summaries(&subscription, 3).await, ["*+z@1", "*+b@2", "*+a@3"], "list order, not key order");
    // One more object is known only to the queue when the list arrives.
    body.raw(
        &[
            format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", pod("q", 6).json()),
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n".to_owned(),
        ]
        .concat(),
    );
    server.list().await.1.items("9", &[pod("z", 8).app("db"), pod("n", 7)]);
    settle().await;
    let store = subscription.store();
    assert_eq!(store.index_values("app").expect("known"), ["db", "web"]);
    assert_eq!(store.list_keys(), [ObjectKey::new("ns", "n"), ObjectKey::new("ns", "z")]);
    assert_eq!(summaries(&subscription, 6).await, ["+q@6", "-a@3?", "-b@2?", "-q@6?", "z@1>8", "+n@7"]);
}

#[tokio::test(start_paused = true)]
async fn relist_notifications_depend_on_uid_and_version() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body =
        server.serve("5", &[pod("same", 1), pod("changed", 2), pod("remade", 3), pod("gone", 4)]).await;
    summaries(&subscription, 4).await;
    body.error(410, "Expired");
    let pods = [pod("same", 1), pod("changed", 7), pod("remade", 8).uid("other"), pod("new", 9)];
    let body = server.serve("9", &pods).await;
    assert_eq!(
        summaries(&subscription, 6).await,
        ["-gone@4?", "same@1>1", "changed@2>7", "-remade@3?", "+remade@8", "+new@9"]
    );
    body.deleted(&pod("same", 10));
    body.added(&pod("same", 11).uid("second"));
    assert_eq!(summaries(&subscription, 2).await, ["-same@10", "+same@11"]);
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_an_earlier_object_of_the_same_name_is_delivered_once() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    // The list contains b at a later version than the list's own, so the watch repeats the events in between.
    let body = server.serve("5", &[pod("a", 1).uid("first"), pod("b", 9)]).await;
    body.deleted(&pod("a", 6).uid("first"));
    body.added(&pod("a", 7).uid("second"));
    body.deleted(&pod("a", 7).uid("first"));
    body.modified(&pod("b", 8));
    body.modified(&pod("a", 10).uid("second"));
    assert_eq!(summaries(&subscription, 5).await, ["*+a@1", "*+b@9", "-a@6", "+a@7", "a@7>10"]);
    assert!(nothing_more(&subscription).await, "repeated events are ignored");
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_uid_matches_any_object_of_its_name() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2).uid("")]).await;
    body.modified(&pod("a", 6).uid(""));
    body.modified(&pod("b", 7));
    body.deleted(&pod("a", 8));
    assert_eq!(summaries(&subscription, 5).await, ["*+a@1", "*+b@2", "a@1>6", "b@2>7", "-a@8"]);
}

#[tokio::test(start_paused = true)]
async fn taking_a_batch_wakes_the_next_waiter_while_more_is_pending() {
    let cluster = Cluster::new();
    let options = SubscribeOptions { batch: 1, ..SubscribeOptions::default() };
    let subscription = cluster.registry.subscribe(pods_key(), options).expect("open");
    let mut server = cluster.server(0);
    let body = server.serve("5", &[]).await;
    settle().await;
    let mut waiters: Vec<_> = (0..3).map(|_| tokio_test::task::spawn(subscription.next_batch())).collect();
    waiters.iter_mut().for_each(|waiter| assert!(waiter.poll().is_pending()));
    body.added(&pod("a", 6));
    body.added(&pod("b", 7));
    settle().await;
    let woken = |waiters: &[tokio_test::task::Spawn<_>]| -> Vec<bool> {
        waiters.iter().map(tokio_test::task::Spawn::is_woken).collect()
    };
    assert_eq!(woken(&waiters), [true, false, false]);
    assert!(waiters.remove(0).poll().is_ready());
    assert_eq!(woken(&waiters), [true, false]);
    assert!(waiters.remove(0).poll().is_ready());
    assert_eq!(woken(&waiters), [false], "nothing is left for it");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_subscriber_does_not_delay_others_and_its_backlog_is_bounded() {
    let cluster = Cluster::new();
    let options = SubscribeOptions { backlog: 10, ..SubscribeOptions::default() };
    let stuck = cluster.registry.subscribe(pods_key(), options).expect("open");
    let lively = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let initial: Vec<Pod> = (0..20).map(|i| pod(&format!("p{i}"), 1)).collect();
    let body = server.serve("1", &initial).await;
    assert_eq!(summaries(&lively, 20).await.len(), 20);
    let mut version = 1;
    for _ in 0..50 {
        for i in 0..20 {
            version += 1;
            body.modified(&pod(&format!("p{i}"), version));
        }
        assert_eq!(summaries(&lively, 20).await.len(), 20, "a subscriber that keeps up gets every event");
    }
    let backlog = |position: usize| cluster.registry.informers()[0].subscribers[position].backlog;
    assert_eq!((backlog(0), backlog(1)), (20, 0));
    let caught_up = summaries(&stuck, 20).await;
    assert_eq!((caught_up[0].as_str(), caught_up[19].as_str()), ("*+p0@982", "*+p19@1001"));
    assert!(nothing_more(&stuck).await);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_keeps_up_gets_every_event_of_a_chunk() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("1", &[]).await;
    let line =
        |kind: &str, version| format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", pod("a", version).json());
    body.raw(&[line("ADDED", 2), line("MODIFIED", 3), line("DELETED", 4), line("ADDED", 5)].concat());
    assert_eq!(summaries(&subscription, 4).await, ["+a@2", "a@2>3", "-a@4", "+a@5"]);
}

/// Panics on one object and collects the others.
#[derive(Default)]
struct Panicky {
    handled: Arc<Mutex<Vec<String>>>,
    parked: Arc<Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl crate::handler::Handler for Panicky {
    async fn handle(&mut self, batch: &[Notification]) -> Result<(), crate::handler::HandlerFailed> {
        assert!(batch.iter().all(|notification| notification.object().resource_version() != "13"), "unlucky");
        self.handled.lock().extend(batch.iter().map(summary));
        Ok(())
    }

    async fn parked(&mut self, notification: &Notification) {
        self.parked.lock().push(summary(notification));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_is_isolated_and_gets_the_rest_of_its_batch() {
    let cluster = Cluster::new();
    let other = cluster.subscribe(pods_key());
    let subscription = cluster.subscribe(pods_key());
    let mut handler = Panicky::default();
    let (handled, parked) = (Arc::clone(&handler.handled), Arc::clone(&handler.parked));
    let running = tokio::spawn(async move { crate::handler::run_handler(&subscription, &mut handler).await });
    let mut server = cluster.server(0);
    let body = server.serve("20", &[pod("a", 12), pod("b", 13), pod("c", 14)]).await;
    assert_eq!(summaries(&other, 3).await.len(), 3, "other subscribers are not affected");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*handled.lock(), ["*+a@12", "*+c@14"]);
    assert_eq!(*parked.lock(), ["*+b@13"]);
    body.modified(&pod("b", 21));
    summaries(&other, 1).await;
    settle().await;
    assert_eq!(handled.lock().last().map(String::as_str), Some("b@13>21"), "a change unparks it");
    cluster.registry.stop().await;
    running.await.expect("it ends with the informer");
}

#[tokio::test(start_paused = true)]
async fn consecutive_chunks_wake_a_subscriber_once() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("1", &[]).await;
    settle().await;
    let batch_sizes = tokio::spawn(async move {
        let mut batches = Vec::new();
        while batches.iter().sum::<usize>() < 100 {
            batches.push(subscription.next_batch().await.expect("open").len());
        }
        batches
    });
    // As a connection delivers chunks: the next chunk arrives when the informer has had its turn.
    let connection = tokio::spawn(async move {
        for version in 2..102 {
            body.event("ADDED", &pod(&format!("pod-{version}"), version));
            let mut had_turn = false;
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut had_turn, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        body
    });
    assert_eq!(batch_sizes.await.expect("no panic"), [100]);
    drop(connection.await);
}
