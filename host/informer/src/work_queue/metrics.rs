use std::time::Duration;

/// The metric names that controller-runtime users' dashboards have (B46). Every one carries the labels `name` and
/// `controller`, the name of the queue.
pub mod names {
    /// Gauge: keys that are ready. [`QueueSnapshot::depth`](super::QueueSnapshot::depth).
    pub const DEPTH: &str = "workqueue_depth";
    /// Counter: keys that became ready.
    pub const ADDS: &str = "workqueue_adds_total";
    /// Histogram: how long a key was ready before a worker took it.
    pub const LATENCY: &str = "workqueue_queue_duration_seconds";
    /// Histogram: how long a worker held a key.
    pub const WORK_DURATION: &str = "workqueue_work_duration_seconds";
    /// Gauge: the summed time that keys now in process have been held.
    pub const UNFINISHED_WORK: &str = "workqueue_unfinished_work_seconds";
    /// Gauge: the longest time that a key now in process has been held.
    pub const LONGEST_RUNNING: &str = "workqueue_longest_running_processor_seconds";
    /// Counter: rate-limited adds.
    pub const RETRIES: &str = "workqueue_retries_total";
}

/// Receives what happens in a queue. Called with the queue locked: count, and return.
///
/// Gauges are not pushed: read them with [`WorkQueue::snapshot`](super::WorkQueue::snapshot) when they are scraped.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use pilothouse_informer::{Priority, QueueMetrics, WorkQueue, WorkQueueOptions};
///
/// #[derive(Default)]
/// struct Adds(AtomicU64);
///
/// impl QueueMetrics for Adds {
///     fn added(&self) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let adds = Arc::new(Adds::default());
/// let queue = WorkQueue::new(WorkQueueOptions { metrics: adds.clone(), ..WorkQueueOptions::default() });
/// queue.add("a", Priority::Normal);
/// queue.add("a", Priority::Normal);
/// assert_eq!((adds.0.load(Ordering::Relaxed), queue.snapshot().depth), (1, 1));
/// ```
pub trait QueueMetrics: Send + Sync + 'static {
    /// A key was added that was not waiting already ([`names::ADDS`]).
    fn added(&self) {}
    /// A rate-limited add ([`names::RETRIES`]).
    fn retried(&self) {}
    /// A worker took a key that had been ready this long ([`names::LATENCY`]).
    fn waited(&self, _ready_for: Duration) {}
    /// A worker let go of a key after this long ([`names::WORK_DURATION`]).
    fn worked(&self, _held_for: Duration) {}
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl QueueMetrics for NoMetrics {}

/// A queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// Keys that are ready, of both priorities ([`names::DEPTH`]).
    pub depth: usize,
    /// Those of them with low priority.
    pub low_priority: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys that workers hold.
    pub processing: usize,
    /// Summed time that those have been held ([`names::UNFINISHED_WORK`]).
    pub unfinished_work: Duration,
    /// The longest of those times ([`names::LONGEST_RUNNING`]).
    pub longest_running: Duration,
}
