//! The metrics of work queues.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::{ByQueue, Histograms, TracedHistogram, TracedHistograms, registered};

/// The metric families of work queues. Cheap to clone.
#[derive(Clone)]
pub(super) struct WorkQueueMetrics {
    pub(super) adds: Family<ByQueue, Counter>,
    pub(super) retries: Family<ByQueue, Counter>,
    pub(super) depth: Family<ByQueue, Gauge>,
    pub(super) latency: TracedHistograms<ByQueue>,
    pub(super) work_duration: Histograms<ByQueue>,
    pub(super) unfinished_work: Family<ByQueue, Gauge<f64, AtomicU64>>,
    pub(super) longest_running: Family<ByQueue, Gauge<f64, AtomicU64>>,
}

impl WorkQueueMetrics {
    /// Creates and registers the families.
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            adds: registered(registry, "workqueue_adds", "Keys that became ready", Family::default()),
            retries: registered(registry, "workqueue_retries", "Rate-limited adds", Family::default()),
            depth: registered(registry, "workqueue_depth", "Keys that are ready", Family::default()),
            latency: registered(
                registry,
                "workqueue_queue_duration_seconds",
                "Time from when a key became ready until a worker took it",
                Family::new_with_constructor(traced_queue_buckets),
            ),
            work_duration: registered(
                registry,
                "workqueue_work_duration_seconds",
                "Time for which a worker processed a key",
                Family::new_with_constructor(queue_buckets),
            ),
            unfinished_work: registered(
                registry,
                "workqueue_unfinished_work_seconds",
                "Summed time of the keys that are being processed",
                Family::default(),
            ),
            longest_running: registered(
                registry,
                "workqueue_longest_running_processor_seconds",
                "Longest time of a key that is being processed",
                Family::default(),
            ),
        }
    }
}

/// Buckets from 10 ns to 1,000 s, those of controller-runtime's work queue.
fn queue_buckets() -> Histogram {
    Histogram::new(queue_bounds())
}

fn traced_queue_buckets() -> TracedHistogram {
    HistogramWithExemplars::new(queue_bounds())
}

fn queue_bounds() -> impl Iterator<Item = f64> {
    exponential_buckets(10e-9, 10.0, 12)
}
