//! The metrics of reconciles.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::exponential_buckets;
use prometheus_client::registry::Registry;

use super::{ByController, ByResult, TracedHistogram, TracedHistograms, registered};

/// The metric families of reconciles. Cheap to clone.
#[derive(Clone)]
pub(super) struct ReconcileMetrics {
    pub(super) results: Family<ByResult, Counter>,
    pub(super) errors: Family<ByController, Counter>,
    pub(super) terminal_errors: Family<ByController, Counter>,
    pub(super) faults: Family<ByController, Counter>,
    pub(super) timeouts: Family<ByController, Counter>,
    pub(super) reconcile_time: TracedHistograms<ByController>,
    pub(super) event_to_reconcile: TracedHistograms<ByController>,
    pub(super) event_to_write: TracedHistograms<ByController>,
    pub(super) active_workers: Family<ByController, Gauge>,
    pub(super) max_concurrent: Family<ByController, Gauge>,
    pub(super) hot_loops: Family<ByController, Counter>,
    pub(super) hot_loop_rounds: Family<ByController, Counter>,
}

impl ReconcileMetrics {
    /// Creates and registers the families.
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            results: registered(
                registry,
                "controller_runtime_reconcile",
                "Reconciles; `result` is `success`, `requeue_after` or `error`",
                Family::default(),
            ),
            errors: registered(
                registry,
                "controller_runtime_reconcile_errors",
                "Reconciles that failed and are retried",
                Family::default(),
            ),
            terminal_errors: registered(
                registry,
                "controller_runtime_terminal_reconcile_errors",
                "Reconciles that failed with a terminal error",
                Family::default(),
            ),
            faults: registered(
                registry,
                "controller_runtime_reconcile_panics",
                "Reconciles that ended in a trap or another fault than a timeout",
                Family::default(),
            ),
            timeouts: registered(
                registry,
                "controller_runtime_reconcile_timeouts",
                "Reconciles that exceeded `limits.reconcileTimeout`",
                Family::default(),
            ),
            reconcile_time: registered(
                registry,
                "controller_runtime_reconcile_time_seconds",
                "Duration of reconciles",
                Family::new_with_constructor(reconcile_buckets),
            ),
            event_to_reconcile: registered(
                registry,
                "pilothouse_event_to_reconcile_seconds",
                "Time from when the plugin's task received a change until a worker began the reconcile that it led to; of several changes, the oldest counts",
                Family::new_with_constructor(event_buckets),
            ),
            event_to_write: registered(
                registry,
                "pilothouse_event_to_write_seconds",
                "Time from when the plugin's task received a change until the API server accepted a write of the reconcile that it led to; each write counts",
                Family::new_with_constructor(event_buckets),
            ),
            active_workers: registered(
                registry,
                "controller_runtime_active_workers",
                "Workers that are reconciling",
                Family::default(),
            ),
            max_concurrent: registered(
                registry,
                "controller_runtime_max_concurrent_reconciles",
                "Workers of the plugin",
                Family::default(),
            ),
            hot_loops: registered(
                registry,
                "pilothouse_hot_loops",
                "Keys found in a hot loop: the plugin's own writes requeue them again and again",
                Family::default(),
            ),
            hot_loop_rounds: registered(
                registry,
                "pilothouse_hot_loop_rounds",
                "Reconciles in a hot loop since it was found; each lengthens the wait before the next",
                Family::default(),
            ),
        }
    }
}

/// Buckets from 5 ms to 60 s, roughly those of controller-runtime.
fn reconcile_buckets() -> TracedHistogram {
    HistogramWithExemplars::new(exponential_buckets(0.005, 2.0, 14))
}

/// Buckets from 1 ms to 131 s: a change waits for its predicate, in the queue and, for the second histogram, for the guest and the API server.
fn event_buckets() -> TracedHistogram {
    HistogramWithExemplars::new(exponential_buckets(0.001, 2.0, 18))
}
