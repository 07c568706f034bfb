//! Tests of the merging, the charges and the delays of keys.

use super::*;

fn queue_with(memory: HostMemory) -> PluginQueue {
    PluginQueue::new(Arc::new(pilothouse_informer::NoMetrics), memory)
}

fn item(name: &str) -> ReconcileKey {
    ReconcileKey { watch: "w".into(), key: ObjectKey::cluster(name) }
}

#[tokio::test(start_paused = true)]
async fn reasons_of_one_key_are_merged() {
    let queue = queue_with(HostMemory::default());
    queue.add(item("a"), Reason::Updated, Priority::Normal);
    queue.add(item("a"), Reason::Created, Priority::Low);
    let (got, reasons) = queue.get().await.expect("an item");
    assert_eq!((got.key().clone(), reasons), (item("a"), vec![Reason::Created, Reason::Updated]));
    queue.add(item("a"), Reason::Deleted, Priority::Normal);
    got.done();
    let (_, reasons) = queue.get().await.expect("the item again");
    assert_eq!(reasons, [Reason::Deleted]);
}

#[tokio::test(start_paused = true)]
async fn a_key_has_the_records_of_its_changes_until_it_was_processed() {
    let queue = queue_with(HostMemory::default());
    let metrics = crate::metrics::Metrics::register(&mut Default::default());
    let options = crate::trace::TraceOptions { ratio: 1.0, slow: Duration::MAX };
    let (tracer, _spans) = crate::trace::Tracer::new(&options, &metrics, &Default::default());
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"7"}}"#;
    let object = pilothouse_model::Object::from_json(text).expect("an object");
    let changed = pilothouse_model::Notification::Added { object, initial: false };
    let now = Instant::now();
    let event = || QueueEvent {
        at: now,
        record: tracer.event(&changed, &Arc::from("maps"), Reason::Updated, now, &HostMemory::default()),
    };
    queue.add_for_event(item("a"), Reason::Updated, Priority::Normal, Some(event()));
    queue.add(item("a"), Reason::Requeue, Priority::Normal);
    queue.add_for_event(item("a"), Reason::Updated, Priority::Normal, Some(event()));
    let (mut got, reasons) = queue.get().await.expect("the item");
    assert!(got.events().is_some());
    queue.requeue_taken(&mut got, &reasons);
    got.done();
    let (mut got, reasons) = queue.get().await.expect("the item again");
    assert!(got.events().is_some(), "it was not processed");
    queue.requeue_after(&mut got, &reasons, Duration::ZERO);
    got.done();
    let (got, _) = queue.get().await.expect("the item once more");
    assert!(got.events().is_none(), "nothing has changed since");
}

#[tokio::test(start_paused = true)]
async fn a_key_has_the_time_of_its_oldest_change_until_it_was_processed() {
    let queue = queue_with(HostMemory::default());
    let first = Instant::now();
    tokio::time::advance(Duration::from_secs(1)).await;
    let second = Instant::now();
    queue.add(item("a"), Reason::Requeue, Priority::Normal);
    queue.add_for_event(item("a"), Reason::Updated, Priority::Normal, Some(second.into()));
    queue.add_for_event(item("a"), Reason::Updated, Priority::Normal, Some(first.into()));
    queue
        .add_named(item("a"), Reason::Updated, Priority::Normal, Some(second.into()), |_| true)
        .expect("it is cached");
    let (mut got, reasons) = queue.get().await.expect("the item");
    assert_eq!(got.event_at(), Some(first));
    queue.requeue_taken(&mut got, &reasons);
    got.done();
    let (mut got, reasons) = queue.get().await.expect("the item again");
    assert_eq!(got.event_at(), Some(first), "it was not processed");
    assert!(queue.retry(&mut got, &reasons).is_some());
    got.done();
    let (got, _) = queue.get().await.expect("the retry");
    assert_eq!(got.event_at(), None, "a retry is no change");
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_delayed_and_counts_as_an_attempt() {
    let queue = queue_with(HostMemory::default());
    queue.add(item("a"), Reason::Created, Priority::Normal);
    let (mut got, reasons) = queue.get().await.expect("an item");
    assert_eq!(got.attempts(), 0);
    assert_eq!(queue.retry(&mut got, &reasons), Some(Duration::from_millis(5)));
    got.done();
    let (mut got, reasons) = queue.get().await.expect("the item again");
    assert_eq!((got.attempts(), reasons), (1, vec![Reason::Retry]));
    got.forget();
    queue.add(item("a"), Reason::Updated, Priority::Normal);
    got.done();
    let (got, _) = queue.get().await.expect("the item once more");
    assert_eq!(got.attempts(), 0);
    got.done();
    queue.shutdown();
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_queued_again_keeps_its_priority() {
    let queue = queue_with(HostMemory::default());
    queue.add(item("a"), Reason::Startup, Priority::Low);
    for round in 0..4 {
        let (mut got, reasons) = queue.get().await.expect("the item");
        assert_eq!(got.priority(), Priority::Low, "round {round}");
        match round {
            0 => drop(queue.retry(&mut got, &reasons)),
            1 => queue.requeue_after(&mut got, &reasons, Duration::from_secs(1)),
            2 => queue.requeue_taken_after(&mut got, &reasons, Duration::from_secs(1)),
            _ => queue.add(item("a"), Reason::Updated, Priority::Normal),
        }
        got.done();
    }
    let (got, _) = queue.get().await.expect("the item");
    assert_eq!(got.priority(), Priority::Normal, "a live change raises the priority");
}

#[tokio::test(start_paused = true)]
async fn a_reset_of_retries_keeps_the_charges_and_reasons_of_keys() {
    let memory = HostMemory::default();
    let queue = queue_with(memory.clone());
    queue.add_uncached(item("a"), Duration::ZERO, Reason::Requeue, Priority::Normal).expect("room");
    for _ in 0..10 {
        let (mut got, reasons) = queue.get().await.expect("the item");
        assert!(queue.retry(&mut got, &reasons).is_some());
    }
    queue.reset_retries();
    assert_eq!((queue.snapshot().depth, memory.used()), (1, KEY_BYTES + 1));
    let (mut got, reasons) = queue.get().await.expect("the item");
    assert_eq!((got.attempts(), reasons), (0, vec![Reason::Retry]));
    got.forget();
    got.done();
    assert_eq!(memory.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_key_becomes_ready_when_another_version_runs() {
    let queue = queue_with(HostMemory::default());
    let delay = Duration::from_secs(300);
    queue.add(item("blocked"), Reason::Created, Priority::Low);
    let (mut got, reasons) = queue.get().await.expect("the item");
    queue.requeue_blocked(&mut got, &reasons, delay);
    got.done();
    queue.add_after(item("later"), delay, Reason::Requeue);
    queue.reset_retries();
    assert_eq!((queue.snapshot().depth, queue.snapshot().delayed), (1, 1));
    let (got, reasons) = queue.get().await.expect("the item");
    assert_eq!((got.key().clone(), reasons), (item("blocked"), vec![Reason::Created]));
    assert_eq!((got.priority(), got.attempts()), (Priority::Low, 0));
}

#[tokio::test(start_paused = true)]
async fn keys_without_a_cached_object_are_refused_beyond_the_host_memory() {
    let memory = HostMemory::new(10 * (KEY_BYTES + 1));
    let queue = queue_with(memory.clone());
    let add = |name: &str| queue.add_uncached(item(name), Duration::ZERO, Reason::Requeue, Priority::Normal);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    names.iter().for_each(|name| add(name).expect("room"));
    let exceeded = add("k").expect_err("one too many");
    assert!(
        exceeded.to_string().contains("limits.hostMemory") && exceeded.kind == HostMemoryKind::QueuedKeys
    );
    assert_eq!((queue.snapshot().depth, memory.used()), (10, memory.limit()));
    queue.add(item("cached"), Reason::Updated, Priority::Normal);
    assert_eq!(memory.used(), memory.limit(), "keys of cached objects are bounded by the cache");
    let (got, _) = queue.get().await.expect("an item");
    assert!(add("k").is_err(), "a key that is being processed still counts");
    got.done();
    add("k").expect("room again");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_stays_charged_once_until_it_is_done() {
    let memory = HostMemory::default();
    let queue = queue_with(memory.clone());
    let delay = Duration::from_secs(1);
    queue.add_uncached(item("a"), delay, Reason::Requeue, Priority::Normal).expect("room");
    queue.add_uncached(item("a"), delay, Reason::Requeue, Priority::Normal).expect("room");
    let once = KEY_BYTES + 1;
    assert_eq!(memory.used(), once, "one key is charged once");
    for round in 0..5 {
        let (mut got, reasons) = queue.get().await.expect("the item");
        match round {
            0 => queue.requeue_taken_after(&mut got, &reasons, delay),
            1 => queue.requeue_taken(&mut got, &reasons),
            2 => queue.requeue_after(&mut got, &reasons, delay),
            _ => drop(queue.retry(&mut got, &reasons)),
        }
        got.done();
        assert_eq!(memory.used(), once, "round {round}");
    }
    let (mut got, _) = queue.get().await.expect("the item");
    got.forget();
    got.done();
    assert_eq!(memory.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_deleted_object_is_charged_once_and_refuses_nothing() {
    let memory = HostMemory::new(1);
    let queue = queue_with(memory.clone());
    let once = KEY_BYTES + 1;
    queue.add(item("a"), Reason::Created, Priority::Normal);
    assert_eq!(memory.used(), 0, "a cached object");
    queue.add(item("a"), Reason::Deleted, Priority::Normal);
    queue.add(item("a"), Reason::Deleted, Priority::Normal);
    assert_eq!(memory.used(), once);
    assert_eq!(memory.check(HostMemoryKind::OwnWrites), Ok(()), "its reconcile may need to write");
    let (mut got, reasons) = queue.get().await.expect("the item");
    assert!(queue.retry(&mut got, &reasons).is_some());
    got.done();
    assert_eq!(memory.used(), once);
    let (mut got, _) = queue.get().await.expect("the item again");
    got.forget();
    got.done();
    assert_eq!(memory.used(), 0);
    queue.add_named(item("b"), Reason::Deleted, Priority::Normal, None, |_| true).expect("room");
    assert_eq!(memory.used(), 0, "another object was deleted");
}

#[tokio::test(start_paused = true)]
async fn keys_that_an_object_refers_to_are_charged_unless_they_are_cached() {
    let memory = HostMemory::default();
    let queue = queue_with(memory.clone());
    let add = |name: &str, is_cached| {
        queue.add_named(item(name), Reason::Updated, Priority::Normal, None, |_| is_cached).expect("room");
        (queue.snapshot().depth, memory.used())
    };
    assert_eq!(add("a", true), (1, 0));
    assert_eq!(add("b", false), (2, KEY_BYTES + 1));
    assert_eq!(add(&"n".repeat(MAX_KEY_LENGTH + 1), false), (2, KEY_BYTES + 1), "no object has this key");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_shut_down_releases_its_memory() {
    let memory = HostMemory::default();
    let queue = queue_with(memory.clone());
    for number in 0..100 {
        let delay = Duration::from_secs(number % 2);
        let item = item(&number.to_string());
        queue.add_uncached(item, delay, Reason::Requeue, Priority::Normal).expect("room");
    }
    let (mut held, reasons) = queue.get().await.expect("an item");
    queue.shutdown();
    let snapshot = queue.snapshot();
    assert_eq!((snapshot.depth, snapshot.delayed, snapshot.processing), (0, 0, 1));
    assert_eq!(memory.used(), KEY_BYTES + 1, "a worker has one key");
    queue.requeue_taken(&mut held, &reasons);
    held.done();
    assert_eq!((memory.used(), queue.snapshot().processing), (0, 0));
}
