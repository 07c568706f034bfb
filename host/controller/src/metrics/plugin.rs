//! The metrics of one plugin.

use std::time::Duration;

use pilothouse_informer::QueueMetrics;
use pilothouse_plugin::{HostMemory, HostMemoryKind};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::lifecycle::StateMetrics;
use crate::metrics::TraceLabels;
use crate::outgoing::HttpCounters;
use crate::rollout::decision::Counts;

/// The counters of one plugin, looked up once so that counting takes no lock of a family.
pub(crate) struct PluginMetrics {
    pub(crate) http: HttpCounters,
    pub(crate) succeeded: Counter,
    pub(crate) requeued_after: Counter,
    pub(crate) failed: Counter,
    /// The reconciles among these that a canary made.
    pub(crate) canary_succeeded: Counter,
    pub(crate) canary_failed: Counter,
    /// Reconciles that were compared with those of a shadow, by their result.
    pub(crate) shadow_agreed: Counter,
    pub(crate) shadow_differed: Counter,
    pub(crate) shadow_skipped: Counter,
    pub(crate) shadow_dropped: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal_errors: Counter,
    /// Reconciles that ended in a fault other than a timeout. Public names call them panics, as controller-runtime does, and traps.
    pub(crate) faults: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) reconcile_time: HistogramWithExemplars<TraceLabels>,
    pub(crate) event_to_reconcile: HistogramWithExemplars<TraceLabels>,
    pub(crate) event_to_write: HistogramWithExemplars<TraceLabels>,
    pub(crate) active_workers: Gauge,
    pub(crate) max_concurrent: Gauge,
    pub(crate) loaded: Counter,
    pub(crate) refused: Counter,
    /// Versions that the host rolled back.
    pub(crate) automatic_rollbacks: Counter,
    /// Versions in whose place an operator ran another.
    pub(crate) operator_rollbacks: Counter,
    pub(crate) state: StateMetrics,
    pub(crate) predicate_errors: Counter,
    pub(crate) events_dropped: Counter,
    pub(crate) observed: Counter,
    pub(crate) observe_errors: Counter,
    pub(crate) parked: Counter,
    pub(crate) index_errors: Counter,
    pub(crate) throttled: Counter,
    pub(crate) metrics_refused: Counter,
    pub(crate) unknown_writes: Counter,
    pub(super) host_memory: [Gauge; HostMemoryKind::ALL.len()],
    pub(super) host_memory_limit: Gauge,
    pub(crate) host_memory_refusals: Counter,
    pub(crate) task_panics: Counter,
    pub(crate) hot_loops: Counter,
    pub(crate) hot_loop_rounds: Counter,
    pub(super) queue_adds: Counter,
    pub(super) queue_retries: Counter,
    pub(crate) queue_depth: Gauge,
    pub(crate) queue_latency: HistogramWithExemplars<TraceLabels>,
    pub(super) work_duration: Histogram,
    pub(crate) unfinished_work: Gauge<f64, std::sync::atomic::AtomicU64>,
    pub(crate) longest_running: Gauge<f64, std::sync::atomic::AtomicU64>,
}

impl PluginMetrics {
    /// Brings the gauges of the host memory up to date.
    pub(crate) fn observe_host_memory(&self, memory: &HostMemory) {
        let gauge = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        for (kind, known) in HostMemoryKind::ALL.iter().zip(&self.host_memory) {
            known.set(gauge(memory.used_by(*kind)));
        }
        self.host_memory_limit.set(gauge(memory.limit()));
    }

    /// The reconciles so far, of all versions but canaries.
    pub(crate) fn reconciles(&self) -> Counts {
        // The counters are read one after the other, so a reconcile that ends meanwhile may be missing until the next call.
        let canaries = self.canary_reconciles();
        let errors = self.failed.get();
        let all = Counts { reconciles: self.succeeded.get() + self.requeued_after.get() + errors, errors };
        all.since(canaries)
    }

    /// The reconciles of canaries so far.
    pub(crate) fn canary_reconciles(&self) -> Counts {
        let errors = self.canary_failed.get();
        Counts { reconciles: self.canary_succeeded.get() + errors, errors }
    }

    /// The counts that `/api/plugins` shows.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 19] {
        [
            ("reconciles", self.succeeded.get() + self.requeued_after.get() + self.failed.get()),
            ("succeeded", self.succeeded.get()),
            ("requeuedAfter", self.requeued_after.get()),
            ("errors", self.errors.get()),
            ("terminalErrors", self.terminal_errors.get()),
            ("traps", self.faults.get()),
            ("timeouts", self.timeouts.get()),
            ("retries", self.queue_retries.get()),
            ("loads", self.loaded.get()),
            ("refusedLoads", self.refused.get()),
            ("observed", self.observed.get()),
            ("observeErrors", self.observe_errors.get()),
            ("parked", self.parked.get()),
            ("indexErrors", self.index_errors.get()),
            ("throttledRequests", self.throttled.get()),
            ("droppedEvents", self.events_dropped.get()),
            ("unknownWrites", self.unknown_writes.get()),
            ("hotLoops", self.hot_loops.get()),
            ("hostMemoryRefusals", self.host_memory_refusals.get()),
        ]
    }
}

/// The worker itself observes for how long a key was ready, because it knows the trace.
impl QueueMetrics for PluginMetrics {
    fn added(&self) {
        self.queue_adds.inc();
    }

    fn retried(&self) {
        self.queue_retries.inc();
    }

    fn worked(&self, held_for: Duration) {
        self.work_duration.observe(held_for.as_secs_f64());
    }
}
