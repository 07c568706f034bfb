//! The work queue's metrics.

use std::time::Duration;

/// The metric names of controller-runtime, which existing dashboards use. Every metric has the labels `name` and
/// `controller` with the name of the queue.
pub mod names {
    /// Gauge: ready keys; [`QueueSnapshot::depth`](super::QueueSnapshot::depth).
    pub const DEPTH: &str = "workqueue_depth";
    /// Counter: keys that became ready.
    pub const ADDS: &str = "workqueue_adds_total";
    /// Histogram: seconds for which a key was ready before a worker took it.
    pub const LATENCY: &str = "workqueue_queue_duration_seconds";
    /// Histogram: seconds for which a worker held a key.
    pub const WORK_DURATION: &str = "workqueue_work_duration_seconds";
    /// Gauge: the sum of the seconds for which the keys in process have been held.
    pub const UNFINISHED_WORK: &str = "workqueue_unfinished_work_seconds";
    /// Gauge: the longest of those times, in seconds.
    pub const LONGEST_RUNNING: &str = "workqueue_longest_running_processor_seconds";
    /// Counter: rate-limited adds.
    pub const RETRIES: &str = "workqueue_retries_total";
}

/// Receives the events of a queue. Its methods are called with the queue locked, so they must only count and return.
///
/// Gauges are not pushed; read them with [`WorkQueue::snapshot`](super::WorkQueue::snapshot) when they are scraped.
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
/// let queue = WorkQueue::new(WorkQueueOptions::default().with_metrics(adds.clone()));
/// queue.add("a", Priority::Normal);
/// queue.add("a", Priority::Normal);
/// assert_eq!((adds.0.load(Ordering::Relaxed), queue.snapshot().depth), (1, 1));
/// ```
pub trait QueueMetrics: Send + Sync + 'static {
    /// A key was added that was not queued yet ([`names::ADDS`]).
    fn added(&self) {}
    /// A key was added with rate limiting ([`names::RETRIES`]).
    fn retried(&self) {}
    /// A worker took a key that had been ready for this time ([`names::LATENCY`]).
    fn waited(&self, _ready_for: Duration) {}
    /// A worker released a key after holding it for this time ([`names::WORK_DURATION`]).
    fn worked(&self, _held_for: Duration) {}
}

/// Ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl QueueMetrics for NoMetrics {}

/// The gauges of a queue at one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// Ready keys of both priorities ([`names::DEPTH`]).
    pub depth: usize,
    /// Ready keys with low priority.
    pub low_priority: usize,
    /// Delayed keys that are not due yet.
    pub delayed: usize,
    /// Keys that wait for a retry: delayed keys that have failed since they were last forgotten.
    pub backing_off: usize,
    /// Keys that workers hold.
    pub processing: usize,
    /// The sum of the times for which those keys have been held ([`names::UNFINISHED_WORK`]).
    pub unfinished_work: Duration,
    /// The longest of those times ([`names::LONGEST_RUNNING`]).
    pub longest_running: Duration,
}
