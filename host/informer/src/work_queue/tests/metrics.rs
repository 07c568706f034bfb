//! The metrics of the work queue.

use super::*;

#[derive(Default)]
struct Counts(Mutex<(usize, usize, Vec<Duration>, Vec<Duration>)>);

impl QueueMetrics for Counts {
    fn added(&self) {
        self.0.lock().0 += 1;
    }

    fn retried(&self) {
        self.0.lock().1 += 1;
    }

    fn waited(&self, ready_for: Duration) {
        self.0.lock().2.push(ready_for);
    }

    fn worked(&self, held_for: Duration) {
        self.0.lock().3.push(held_for);
    }
}

#[tokio::test(start_paused = true)]
async fn counts_and_durations_reach_the_metrics() {
    let counts = Arc::new(Counts::default());
    let queue = WorkQueue::new(WorkQueueOptions { metrics: counts.clone(), ..WorkQueueOptions::default() });
    queue.add("a", Priority::Normal);
    queue.add("a", Priority::Normal);
    queue.add("low", Priority::Low);
    queue.add_rate_limited("later", Priority::Normal);
    assert_eq!((queue.snapshot().depth, queue.snapshot().delayed), (2, 1));
    advance(MS(3)).await;
    let item = queue.get().await.expect("open");
    advance(MS(4)).await;
    let second = queue.get().await.expect("open");
    advance(MS(6)).await;
    let snapshot = queue.snapshot();
    assert_eq!((snapshot.depth, snapshot.low_priority, snapshot.delayed, snapshot.processing), (1, 1, 0, 2));
    assert_eq!((snapshot.longest_running, snapshot.unfinished_work), (MS(10), MS(16)));
    queue.add("a", Priority::Normal);
    item.done();
    second.done();
    let (added, retried, waited, worked) = counts.0.lock().clone();
    assert_eq!((added, retried), (4, 1), "a, low, later when due, and a again");
    assert_eq!(waited, [MS(3), MS(2)], "ready since the due time, not since the add");
    assert_eq!(worked, [MS(10), MS(6)]);
    let names = [names::DEPTH, names::ADDS, names::LATENCY, names::WORK_DURATION, names::RETRIES];
    assert!(names.iter().all(|name| name.starts_with("workqueue_")));
}
