//! The host's metrics about its plugins, under the names that dashboards for controller-runtime use.

pub(crate) mod compile;
pub(crate) mod guest;
pub(crate) mod informers;
mod plugin;
pub(crate) mod process;
pub(crate) mod rest;
pub(crate) mod trace;

use std::sync::Arc;

use pilothouse_plugin::HostMemoryKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use crate::lifecycle::LifecycleMetrics;
use crate::metrics::rest::RestMetrics;
use crate::metrics::trace::DroppedSpans;
use crate::name::PluginName;
use crate::outgoing::HttpMetrics;
use crate::recording::RecordingMetrics;
pub(crate) use plugin::PluginMetrics;

/// Label values are the plugin's name and outcomes, never a text that a guest can choose. The plugin's name is shared by
/// its dozens of label sets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByQueue {
    name: Arc<str>,
    controller: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    controller: Arc<str>,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    controller: Arc<str>,
    kind: &'static str,
}

/// What was built: constants of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
    os: &'static str,
    arch: &'static str,
}

/// The labels of an exemplar: `trace_id`.
pub(crate) type TraceLabels = [(&'static str, String); 1];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;
/// Histograms that can show a trace for each bucket.
type TracedHistogram = HistogramWithExemplars<TraceLabels>;
type TracedHistograms<L> = Family<L, TracedHistogram, fn() -> TracedHistogram>;

/// The metric families of all plugins. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    pub(crate) ready: Gauge,
    reconciles: Family<ByResult, Counter>,
    canary_reconciles: Family<ByResult, Counter>,
    shadow_reconciles: Family<ByResult, Counter>,
    errors: Family<ByController, Counter>,
    terminal_errors: Family<ByController, Counter>,
    panics: Family<ByController, Counter>,
    timeouts: Family<ByController, Counter>,
    reconcile_time: TracedHistograms<ByController>,
    event_to_reconcile: TracedHistograms<ByController>,
    event_to_write: TracedHistograms<ByController>,
    active_workers: Family<ByController, Gauge>,
    max_concurrent: Family<ByController, Gauge>,
    reloads: Family<ByResult, Counter>,
    rollbacks: Family<ByResult, Counter>,
    lifecycle: LifecycleMetrics,
    predicate_errors: Family<ByController, Counter>,
    events_dropped: Family<ByController, Counter>,
    observed: Family<ByController, Counter>,
    observe_errors: Family<ByController, Counter>,
    parked: Family<ByController, Counter>,
    index_errors: Family<ByController, Counter>,
    throttled: Family<ByController, Counter>,
    metrics_refused: Family<ByController, Counter>,
    unknown_writes: Family<ByController, Counter>,
    host_memory: Family<ByKind, Gauge>,
    host_memory_limit: Family<ByController, Gauge>,
    host_memory_refusals: Family<ByController, Counter>,
    task_panics: Family<ByController, Counter>,
    hot_loops: Family<ByController, Counter>,
    hot_loop_rounds: Family<ByController, Counter>,
    queue_adds: Family<ByQueue, Counter>,
    queue_retries: Family<ByQueue, Counter>,
    queue_depth: Family<ByQueue, Gauge>,
    queue_latency: TracedHistograms<ByQueue>,
    work_duration: Histograms<ByQueue>,
    unfinished_work: Family<ByQueue, Gauge<f64, std::sync::atomic::AtomicU64>>,
    longest_running: Family<ByQueue, Gauge<f64, std::sync::atomic::AtomicU64>>,
    http: HttpMetrics,
    pub(crate) rest: RestMetrics,
    pub(crate) dropped_spans: DroppedSpans,
    pub(crate) recording: RecordingMetrics,
}

/// Buckets from 5 ms to 60 s, roughly those of controller-runtime.
fn reconcile_buckets() -> TracedHistogram {
    HistogramWithExemplars::new(exponential_buckets(0.005, 2.0, 14))
}

/// Buckets from 1 ms to 131 s: a change waits for its predicate, in the queue and, for the second histogram, for the guest and the API server.
fn event_buckets() -> TracedHistogram {
    HistogramWithExemplars::new(exponential_buckets(0.001, 2.0, 18))
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

/// Registers a family and returns it.
pub(crate) fn registered<M: Metric + Clone>(
    registry: &mut Registry,
    name: &'static str,
    help: &'static str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Registers the metric that says what was built.
fn register_build(registry: &mut Registry) {
    let help = "Always 1; the labels are the version of the host, and what it was compiled for";
    let builds: Family<Build, Gauge> = registered(registry, "pilothouse_build_info", help, Family::default());
    let build =
        Build { version: env!("CARGO_PKG_VERSION"), os: std::env::consts::OS, arch: std::env::consts::ARCH };
    builds.get_or_create(&build).set(1);
}

impl Metrics {
    /// Creates the families and registers each under its name and help text, which docs/metrics.md repeats.
    #[expect(clippy::too_many_lines, reason = "the table of metrics")]
    pub fn register(registry: &mut Registry) -> Self {
        let lifecycle = LifecycleMetrics::register(registry);
        let http = HttpMetrics::register(registry);
        let rest = RestMetrics::register(registry);
        let dropped_spans = DroppedSpans::register(registry);
        let recording = RecordingMetrics::register(registry);
        register_build(registry);
        // The text format appends `_total` to the names of counters.
        Self {
            lifecycle,
            http,
            rest,
            dropped_spans,
            recording,
            ready: registered(
                registry,
                "pilothouse_ready",
                "1 if the host is ready, as `/readyz` says, else 0",
                Gauge::default(),
            ),
            reconciles: registered(
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
            panics: registered(
                registry,
                "controller_runtime_reconcile_panics",
                "Reconciles that ended in a trap",
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
            reloads: registered(
                registry,
                "pilothouse_plugin_reloads",
                "Files that were loaded or refused; `result` is `loaded` or `refused`",
                Family::default(),
            ),
            canary_reconciles: registered(
                registry,
                "pilothouse_plugin_canary_reconciles",
                "Reconciles by a version that runs beside another one, which `controller_runtime_reconcile_total` counts, too; `result` is `success` or `error`",
                Family::default(),
            ),
            shadow_reconciles: registered(
                registry,
                "pilothouse_plugin_shadow_reconciles",
                "Reconciles of the running version that its shadow was to repeat; `result` is `agreed`, `differed`, `skipped` (not comparable) or `dropped` (the shadow was behind, or the reconcile is too large)",
                Family::default(),
            ),
            rollbacks: registered(
                registry,
                "pilothouse_plugin_rollbacks",
                "Versions in whose place an older one runs; `result` is `automatic` if they failed in their probation, or `operator`",
                Family::default(),
            ),
            predicate_errors: registered(
                registry,
                "pilothouse_predicate_errors",
                "Evaluations of a predicate that failed; the host admits the change",
                Family::default(),
            ),
            events_dropped: registered(
                registry,
                "pilothouse_events_dropped",
                "Events dropped beyond `limits.eventsPerSecond` or `limits.hostMemory`, or because 128 Events of the plugin were waiting",
                Family::default(),
            ),
            observed: registered(
                registry,
                "pilothouse_observed_notifications",
                "Notifications that the plugin's observer processed, replays included",
                Family::default(),
            ),
            observe_errors: registered(
                registry,
                "pilothouse_observe_errors",
                "Batches at which the observer failed, and observer instances that could not be created",
                Family::default(),
            ),
            parked: registered(
                registry,
                "pilothouse_observe_parked",
                "Objects parked because the observer keeps failing at them: until they change, and deletions until they are retried",
                Family::default(),
            ),
            index_errors: registered(
                registry,
                "pilothouse_index_errors",
                "Faults that left an object without computed index values until it changes, and instances that could not be created for them",
                Family::default(),
            ),
            throttled: registered(
                registry,
                "pilothouse_client_throttled",
                "Requests that waited because `limits.clientQps` was used up",
                Family::default(),
            ),
            metrics_refused: registered(
                registry,
                "pilothouse_guest_metrics_refused",
                "Uses of the plugin's own metrics that were not recorded: beyond `limits.metricSeries`, of another kind, or with a name that another metric has",
                Family::default(),
            ),
            unknown_writes: registered(
                registry,
                "pilothouse_unknown_writes",
                "Writes without a conclusive response; a live get decides whether they took effect",
                Family::default(),
            ),
            host_memory: registered(
                registry,
                "pilothouse_plugin_host_memory_bytes",
                "Bytes that the host holds for the plugin; `kind` is one of the kinds in limits.md",
                Family::default(),
            ),
            host_memory_limit: registered(
                registry,
                "pilothouse_plugin_host_memory_limit_bytes",
                "`limits.hostMemory` of the plugin",
                Family::default(),
            ),
            host_memory_refusals: registered(
                registry,
                "pilothouse_host_memory_refusals",
                "Work left out, outside of calls, because `limits.hostMemory` was exceeded",
                Family::default(),
            ),
            task_panics: registered(
                registry,
                "pilothouse_task_panics",
                "Panics of the plugin's tasks in the host, each of which is restarted: a defect of the host",
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
            queue_adds: registered(registry, "workqueue_adds", "Keys that became ready", Family::default()),
            queue_retries: registered(registry, "workqueue_retries", "Rate-limited adds", Family::default()),
            queue_depth: registered(registry, "workqueue_depth", "Keys that are ready", Family::default()),
            queue_latency: registered(
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

    /// Returns the metrics of one plugin.
    pub(crate) fn of(&self, plugin: &PluginName) -> Arc<PluginMetrics> {
        let controller = ByController { controller: plugin.to_shared() };
        let queue = ByQueue { name: plugin.to_shared(), controller: plugin.to_shared() };
        let result = |result| ByResult { controller: plugin.to_shared(), result };
        Arc::new(PluginMetrics {
            http: self.http.of(plugin),
            succeeded: self.reconciles.get_or_create_owned(&result("success")),
            requeued_after: self.reconciles.get_or_create_owned(&result("requeue_after")),
            failed: self.reconciles.get_or_create_owned(&result("error")),
            canary_succeeded: self.canary_reconciles.get_or_create_owned(&result("success")),
            canary_failed: self.canary_reconciles.get_or_create_owned(&result("error")),
            shadow_agreed: self.shadow_reconciles.get_or_create_owned(&result("agreed")),
            shadow_differed: self.shadow_reconciles.get_or_create_owned(&result("differed")),
            shadow_skipped: self.shadow_reconciles.get_or_create_owned(&result("skipped")),
            shadow_dropped: self.shadow_reconciles.get_or_create_owned(&result("dropped")),
            errors: self.errors.get_or_create_owned(&controller),
            terminal_errors: self.terminal_errors.get_or_create_owned(&controller),
            panics: self.panics.get_or_create_owned(&controller),
            timeouts: self.timeouts.get_or_create_owned(&controller),
            reconcile_time: self.reconcile_time.get_or_create_owned(&controller),
            event_to_reconcile: self.event_to_reconcile.get_or_create_owned(&controller),
            event_to_write: self.event_to_write.get_or_create_owned(&controller),
            active_workers: self.active_workers.get_or_create_owned(&controller),
            max_concurrent: self.max_concurrent.get_or_create_owned(&controller),
            loaded: self.reloads.get_or_create_owned(&result("loaded")),
            refused: self.reloads.get_or_create_owned(&result("refused")),
            taken_back: self.rollbacks.get_or_create_owned(&result("automatic")),
            rolled_back: self.rollbacks.get_or_create_owned(&result("operator")),
            state: self.lifecycle.of(plugin),
            predicate_errors: self.predicate_errors.get_or_create_owned(&controller),
            events_dropped: self.events_dropped.get_or_create_owned(&controller),
            observed: self.observed.get_or_create_owned(&controller),
            observe_errors: self.observe_errors.get_or_create_owned(&controller),
            parked: self.parked.get_or_create_owned(&controller),
            index_errors: self.index_errors.get_or_create_owned(&controller),
            throttled: self.throttled.get_or_create_owned(&controller),
            metrics_refused: self.metrics_refused.get_or_create_owned(&controller),
            unknown_writes: self.unknown_writes.get_or_create_owned(&controller),
            host_memory: HostMemoryKind::ALL.map(|kind| {
                let kind = ByKind { controller: plugin.to_shared(), kind: kind.as_str() };
                self.host_memory.get_or_create_owned(&kind)
            }),
            host_memory_limit: self.host_memory_limit.get_or_create_owned(&controller),
            host_memory_refusals: self.host_memory_refusals.get_or_create_owned(&controller),
            task_panics: self.task_panics.get_or_create_owned(&controller),
            hot_loops: self.hot_loops.get_or_create_owned(&controller),
            hot_loop_rounds: self.hot_loop_rounds.get_or_create_owned(&controller),
            queue_adds: self.queue_adds.get_or_create_owned(&queue),
            queue_retries: self.queue_retries.get_or_create_owned(&queue),
            queue_depth: self.queue_depth.get_or_create_owned(&queue),
            queue_latency: self.queue_latency.get_or_create_owned(&queue),
            work_duration: self.work_duration.get_or_create_owned(&queue),
            unfinished_work: self.unfinished_work.get_or_create_owned(&queue),
            longest_running: self.longest_running.get_or_create_owned(&queue),
        })
    }
}

#[cfg(test)]
mod tests;
