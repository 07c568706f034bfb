//! Shutdown, drain, export and import.

use super::*;

#[tokio::test(start_paused = true)]
async fn shutdown_rejects_keys_and_ends_waiters_at_once() {
    let queue = queue();
    let (mut first, mut second) = (task::spawn(queue.get()), task::spawn(queue.get()));
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    queue.shutdown();
    assert!(first.is_woken() && second.is_woken());
    assert!(assert_ready!(first.poll()).is_none() && assert_ready!(second.poll()).is_none());
    assert!(!queue.add("a", Priority::Normal) && !queue.add_after("a", MS(1), Priority::Normal));
    assert_eq!(queue.add_rate_limited("a", Priority::Normal), None);
    queue.shutdown();
    queue.shutdown_with_drain().await;
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn shutdown_keeps_pending_keys_for_export() {
    let queue = queue();
    queue.add("a", Priority::Normal);
    queue.shutdown();
    assert!(queue.get().await.is_none());
    assert_eq!(queue.export().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_hands_out_ready_keys_and_waits_for_held_ones() {
    let queue = queue();
    queue.add("a", Priority::Normal);
    queue.add("b", Priority::Normal);
    queue.add_after("later", MS(5), Priority::Normal);
    let held = queue.get().await.expect("open");
    queue.add("a", Priority::Normal);
    let mut drain = task::spawn(queue.shutdown_with_drain());
    let mut drain_again = task::spawn(queue.shutdown_with_drain());
    assert_pending!(drain.poll());
    assert_pending!(drain_again.poll());
    assert!(!queue.add("c", Priority::Normal));
    assert_eq!(take(&queue).await, "b");
    // The held key was added again before the drain started, so it is handed out once more.
    let mut waiter = task::spawn(queue.get());
    assert_pending!(waiter.poll());
    held.done();
    assert_pending!(drain.poll());
    assert!(waiter.is_woken());
    let again = assert_ready!(waiter.poll()).expect("the drain hands it out");
    assert_eq!(*again.key(), "a");
    let mut last = task::spawn(queue.get());
    assert_pending!(last.poll());
    again.done();
    assert!(drain.is_woken() && drain_again.is_woken() && last.is_woken());
    assert_ready!(drain.poll());
    assert_ready!(drain_again.poll());
    assert!(assert_ready!(last.poll()).is_none());
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_a_drain() {
    let queue = queue();
    queue.add("a", Priority::Normal);
    let _held = queue.get().await.expect("open");
    let mut drain = task::spawn(queue.shutdown_with_drain());
    assert_pending!(drain.poll());
    queue.shutdown();
    assert!(drain.is_woken());
    assert_ready!(drain.poll());
}

#[tokio::test(start_paused = true)]
async fn pending_work_moves_to_another_queue_with_delays_and_attempts() {
    let old = queue();
    old.add("held", Priority::Normal);
    let _held = old.get().await.expect("open");
    old.add("ready", Priority::Low);
    old.add_rate_limited("retry", Priority::Normal);
    old.add_rate_limited("retry", Priority::Normal);
    old.add_after("later", MS(500), Priority::Normal);
    advance(MS(1)).await;
    old.shutdown();
    let new = queue();
    new.import(old.export());
    assert_eq!(new.attempts(&"retry"), 2);
    let start = Instant::now();
    let mut taken = Vec::new();
    for _ in 0..4 {
        let key = take(&new).await;
        taken.push((key, start.elapsed()));
    }
    assert_eq!(taken, [("held", MS(0)), ("ready", MS(0)), ("retry", MS(4)), ("later", MS(499))]);
}

#[tokio::test(start_paused = true)]
async fn imported_keys_wake_one_waiter_after_another() {
    let queue = queue();
    let pending = |key, delay| PendingItem { key, priority: Priority::Normal, delay, attempts: 0 };
    let mut waiters: Vec<_> = (0..4).map(|_| task::spawn(queue.get())).collect();
    for waiter in &mut waiters {
        assert_pending!(waiter.poll());
    }
    // Keep the items until the end, because releasing a key also wakes a waiter.
    let mut held = Vec::new();
    queue.import(vec![pending("a", MS(0)), pending("b", MS(0))]);
    assert!(waiters[0].is_woken() && !waiters[1].is_woken());
    held.push(assert_ready!(waiters[0].poll()));
    assert!(waiters[1].is_woken() && !waiters[2].is_woken());
    held.push(assert_ready!(waiters[1].poll()));
    assert!(!waiters[2].is_woken(), "nothing is left");
    queue.import(vec![pending("c", MS(0)), pending("later", MS(10))]);
    assert!(waiters[2].is_woken() && !waiters[3].is_woken());
    held.push(assert_ready!(waiters[2].poll()));
    assert!(waiters[3].is_woken(), "a waiter has to sleep for the later key");
    assert_pending!(waiters[3].poll());
    advance(MS(10)).await;
    assert!(waiters[3].is_woken());
    held.push(assert_ready!(waiters[3].poll()));
    let taken: Vec<_> = held.iter().flatten().map(|item| *item.key()).collect();
    assert_eq!(taken, ["a", "b", "c", "later"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_worker_releases_its_key() {
    let queue = queue();
    queue.add("a", Priority::Normal);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.get().await.expect("open");
            panic!("a defect in the worker");
        }
    });
    assert!(worker.await.is_err());
    queue.add("a", Priority::Normal);
    assert_eq!(take(&queue).await, "a");
}

#[tokio::test(start_paused = true)]
async fn discard_keeps_only_the_keys_that_workers_hold() {
    let queue = queue();
    queue.add("held", Priority::Normal);
    let held = queue.get().await.expect("open");
    queue.add("held", Priority::Normal);
    queue.add("ready", Priority::Low);
    queue.add_after("delayed", MS(5), Priority::Normal);
    queue.add_rate_limited("failed", Priority::Normal);
    queue.shutdown();
    queue.discard();
    assert_eq!(queue.export().len(), 1);
    assert_eq!(queue.snapshot().processing, 1);
    held.done();
    assert_eq!((queue.export().len(), queue.snapshot().processing), (0, 0));
    queue.shutdown_with_drain().await;
    assert!(queue.get().await.is_none());
}
