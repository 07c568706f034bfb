//! Which keys are handed out, to which worker, and when.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_is_queued_once_and_again_after_done_if_added_meanwhile() {
    let queue = queue();
    for _ in 0..3 {
        queue.add("a", Priority::Normal);
    }
    assert!(queue.len() == 1 && !queue.is_empty());
    let item = queue.get().await.expect("open");
    queue.add("a", Priority::Normal);
    queue.add("a", Priority::Normal);
    assert!(queue.is_empty() && is_idle(&queue));
    item.done();
    assert_eq!(take(&queue).await, "a");
    assert!(is_idle(&queue), "once");
}

#[tokio::test(start_paused = true)]
async fn done_wakes_a_waiter_only_if_a_key_is_ready() {
    let queue = queue();
    queue.add("a", Priority::Normal);
    let held = queue.get().await.expect("open");
    let mut waiter = task::spawn(queue.get());
    assert_pending!(waiter.poll());
    held.done();
    assert!(!waiter.is_woken());
    queue.add("b", Priority::Normal);
    assert!(waiter.is_woken());
}

#[tokio::test(start_paused = true)]
async fn debug_output_shows_the_queue_state_and_the_held_key() {
    let queue = queue();
    queue.add("a", Priority::Low);
    let held = queue.get().await.expect("open");
    assert_eq!(format!("{held:?}"), "WorkItem { key: \"a\", priority: Low, .. }");
    assert_eq!(format!("{queue:?}"), format!("WorkQueue({:?})", queue.snapshot()));
}

#[tokio::test(start_paused = true)]
async fn two_workers_never_hold_the_same_key() {
    let queue = queue();
    queue.add("a", Priority::Normal);
    let held = queue.get().await.expect("open");
    queue.add("a", Priority::Normal);
    queue.add_after("a", MS(1), Priority::Normal);
    queue.add_rate_limited("a", Priority::Normal);
    advance(MS(100)).await;
    let mut second = task::spawn(queue.get());
    assert_pending!(second.poll());
    drop(held);
    assert!(second.is_woken());
    assert!(assert_ready!(second.poll()).is_some());
}

#[test]
fn concurrent_workers_hold_each_key_exclusively_and_lose_none() {
    const KEYS: usize = 20;
    const ADDS: usize = 2000;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let queue = WorkQueue::new(WorkQueueOptions::default());
        // Per key: the number of adds, the number that a worker has seen, and the number of workers that hold it.
        let added: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
        let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
        let holders: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (queue, added, seen, holders) =
                    (queue.clone(), added.clone(), seen.clone(), holders.clone());
                tokio::spawn(async move {
                    while let Some(item) = queue.get().await {
                        let key: usize = *item.key();
                        assert_eq!(holders[key].fetch_add(1, Ordering::SeqCst), 0, "held exclusively");
                        seen[key].store(added[key].load(Ordering::SeqCst), Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        holders[key].fetch_sub(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for add in 0..ADDS {
            let key = (add * 7) % KEYS;
            added[key].fetch_add(1, Ordering::SeqCst);
            let priority = if add % 3 == 0 { Priority::Low } else { Priority::Normal };
            queue.add(key, priority);
            if add % 16 == 0 {
                tokio::task::yield_now().await;
            }
        }
        queue.shutdown_with_drain().await;
        for worker in workers {
            worker.await.expect("no worker panicked");
        }
        for key in 0..KEYS {
            assert_eq!(
                seen[key].load(Ordering::SeqCst),
                added[key].load(Ordering::SeqCst),
                "the last add was seen"
            );
        }
    });
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_delays_wins() {
    let queue = queue();
    queue.add_after("a", MS(100), Priority::Normal);
    queue.add_after("a", MS(10), Priority::Normal);
    queue.add_after("a", MS(50), Priority::Normal);
    let start = Instant::now();
    assert_eq!(take(&queue).await, "a");
    assert_eq!(start.elapsed(), MS(10));
    advance(MS(1000)).await;
    assert!(is_idle(&queue), "the later times are gone");
}

#[tokio::test(start_paused = true)]
async fn an_immediate_add_replaces_a_delayed_one_but_not_the_reverse() {
    let queue = queue();
    queue.add_after("a", MS(100), Priority::Normal);
    queue.add("a", Priority::Low);
    queue.add_after("a", MS(50), Priority::Normal);
    assert_eq!(take(&queue).await, "a");
    assert_eq!(queue.snapshot().delayed, 0);
    queue.add_after("b", Duration::ZERO, Priority::Normal);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_delayed_while_held_becomes_ready_at_its_time() {
    let queue = queue();
    queue.add("a", Priority::Normal);
    let held = queue.get().await.expect("open");
    queue.add_after("a", MS(30), Priority::Normal);
    held.done();
    let start = Instant::now();
    assert_eq!(take(&queue).await, "a");
    assert_eq!(start.elapsed(), MS(30));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_sleeping_for_a_later_key_wakes_for_an_earlier_one() {
    let queue = queue();
    queue.add_after("late", MS(1000), Priority::Normal);
    let mut first = task::spawn(queue.get());
    let mut second = task::spawn(queue.get());
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    queue.add_after("early", MS(10), Priority::Normal);
    // The woken waiter takes other work and leaves.
    queue.add("now", Priority::Normal);
    let woken = if first.is_woken() { &mut first } else { &mut second };
    let item = assert_ready!(woken.poll()).expect("open");
    assert_eq!(*item.key(), "now");
    // The other waiter must know the earlier time.
    let other = if first.is_woken() { &mut first } else { &mut second };
    assert_pending!(other.poll());
    advance(MS(10)).await;
    assert!(other.is_woken());
    assert_eq!(*assert_ready!(other.poll()).expect("open").key(), "early");
}

#[tokio::test(start_paused = true)]
async fn only_retries_are_rate_limited_and_forget_resets_them() {
    let queue = queue();
    let waits: Vec<_> =
        (0..4).map(|_| queue.add_rate_limited("a", Priority::Normal).expect("open")).collect();
    assert_eq!(waits, [MS(5), MS(10), MS(20), MS(40)]);
    assert_eq!(queue.attempts(&"a"), 4);
    queue.add("a", Priority::Normal);
    let item = queue.get().await.expect("open");
    assert_eq!((item.attempts(), queue.attempts(&"b")), (4, 0));
    queue.forget(item.key());
    item.done();
    assert_eq!(queue.add_rate_limited("a", Priority::Normal), Some(MS(5)));
}

#[tokio::test(start_paused = true)]
async fn the_overall_bucket_applies_if_configured() {
    let rate_limit = RateLimit { overall: Some(TokenBucket::new(10, 2)), ..RateLimit::default() };
    let queue = WorkQueue::new(WorkQueueOptions { rate_limit, ..WorkQueueOptions::default() });
    let waits: Vec<_> = ["a", "b", "c", "d"].map(|key| queue.add_rate_limited(key, Priority::Normal)).into();
    assert_eq!(waits, [Some(MS(5)), Some(MS(5)), Some(MS(100)), Some(MS(200))]);
}

#[tokio::test(start_paused = true)]
async fn live_changes_come_first_and_raise_the_priority_of_a_queued_key() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key, Priority::Low);
    }
    queue.add("x", Priority::Normal);
    queue.add("b", Priority::Normal);
    queue.add("x", Priority::Low);
    let mut order = Vec::new();
    for _ in 0..4 {
        let item = queue.get().await.expect("open");
        order.push((*item.key(), item.priority()));
    }
    let (low, normal) = (Priority::Low, Priority::Normal);
    assert_eq!(order, [("x", normal), ("b", normal), ("a", low), ("c", low)]);
}

#[tokio::test(start_paused = true)]
async fn a_held_key_keeps_the_highest_priority_it_is_added_with() {
    let queue = queue();
    queue.add("a", Priority::Low);
    let held = queue.get().await.expect("open");
    queue.add("a", Priority::Low);
    queue.add("a", Priority::Normal);
    queue.add("a", Priority::Low);
    queue.add("b", Priority::Low);
    held.done();
    assert_eq!(queue.get().await.expect("open").priority(), Priority::Normal);
}

#[tokio::test(start_paused = true)]
async fn one_pop_in_ten_takes_the_oldest_low_priority_key() {
    let queue = WorkQueue::new(WorkQueueOptions::default());
    for key in 0..3 {
        queue.add(1000 + key, Priority::Low);
    }
    let mut lows = Vec::new();
    for pop in 1..=30 {
        // Live changes keep coming.
        queue.add(pop, Priority::Normal);
        queue.add(pop + 100, Priority::Normal);
        let item = queue.get().await.expect("open");
        if item.priority() == Priority::Low {
            lows.push((pop, *item.key()));
        }
    }
    assert_eq!(lows, [(10, 1000), (20, 1001), (30, 1002)]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_get_takes_nothing_and_passes_on_its_wake_up() {
    let queue = queue();
    let mut first = task::spawn(queue.get());
    let mut second = task::spawn(queue.get());
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    queue.add("a", Priority::Normal);
    let (woken, mut other) = if first.is_woken() { (first, second) } else { (second, first) };
    drop(woken);
    assert!(other.is_woken());
    assert_eq!(*assert_ready!(other.poll()).expect("open").key(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_reset_of_retries_makes_failed_keys_ready_and_keeps_other_delays() {
    let queue = queue();
    queue.add("failed", Priority::Normal);
    for _ in 0..12 {
        let item = queue.get().await.expect("open");
        queue.add_rate_limited(*item.key(), Priority::Normal);
    }
    queue.add_after("later", MS(60_000), Priority::Normal);
    assert_eq!((queue.attempts(&"failed"), queue.snapshot().backing_off), (12, 1));
    let mut waiter = task::spawn(queue.get());
    assert_pending!(waiter.poll());
    queue.reset_retries();
    assert!(waiter.is_woken());
    let item = assert_ready!(waiter.poll()).expect("open");
    assert_eq!((*item.key(), item.attempts(), queue.snapshot().backing_off), ("failed", 0, 0));
    assert_eq!(queue.add_rate_limited("failed", Priority::Normal), Some(MS(5)), "the backoff starts again");
    drop(item);
    assert_eq!(take(&queue).await, "failed");
    assert!(is_idle(&queue), "a delay that is not due to a failure is kept");
    assert_eq!(take(&queue).await, "later");
}

/// Whether a reset ends the delay.
#[derive(Default)]
struct Blocked(bool);

impl KeyPayload for Blocked {
    fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn ends_with_reset(&self) -> bool {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_of_retries_ends_the_delays_whose_payload_says_so() {
    let queue = WorkQueue::with_payloads(WorkQueueOptions::default());
    for (key, is_blocked) in [("later", false), ("blocked", true)] {
        queue.add_with_payload_after(key, Blocked(is_blocked), MS(60_000), Priority::Normal);
    }
    queue.reset_retries();
    let item = assert_ready!(task::spawn(queue.get()).poll()).expect("open");
    assert_eq!((*item.key(), item.payload().0, queue.snapshot().delayed), ("blocked", true, 1));
    // The payload went with the key, so that a later delay of the same key is kept.
    queue.add_with_payload_after("blocked", Blocked(false), MS(60_000), Priority::Normal);
    drop(item);
    queue.reset_retries();
    assert_eq!((queue.len(), queue.snapshot().delayed), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn pending_keys_are_listed_with_what_they_wait_for() {
    let queue = queue();
    queue.add("held", Priority::Normal);
    let held = queue.get().await.expect("open");
    queue.add_rate_limited("failed", Priority::Normal);
    queue.add("low", Priority::Low);
    queue.add("live", Priority::Normal);
    queue.add_after("later", MS(1000), Priority::Normal);
    advance(MS(3)).await;
    let status = |key, state, attempts| KeyStatus { key, state, attempts };
    let all = [
        status("held", KeyState::Processing(MS(3)), 0),
        status("failed", KeyState::Delayed(MS(2)), 1),
        status("live", KeyState::Ready(MS(3)), 0),
        status("low", KeyState::Ready(MS(3)), 0),
        status("later", KeyState::Delayed(MS(997)), 0),
    ];
    assert_eq!(queue.list(10), all);
    assert_eq!(queue.list(2), all[..2]);
    for expected in &all {
        assert_eq!(queue.status(&expected.key).as_ref(), Some(expected));
    }
    assert_eq!(queue.status(&"never"), None);
    assert!(queue.contains(&"later") && !queue.contains(&"never"));
    held.done();
    assert!(!queue.contains(&"held"));
}
