//! The host's metrics about its plugins, under the names that dashboards for controller-runtime use.

mod changes;
pub(crate) mod compile;
pub(crate) mod guest;
mod host_memory;
mod imports;
pub(crate) mod informers;
mod plugin;
pub(crate) mod process;
mod reconciles;
pub(crate) mod rest;
pub(crate) mod trace;
mod versions;
mod work_queue;

use std::sync::Arc;

use pilothouse_plugin::HostMemoryKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use changes::ChangeMetrics;
use host_memory::HostMemoryMetrics;
use imports::ImportMetrics;
pub(crate) use plugin::PluginMetrics;
use reconciles::ReconcileMetrics;
use versions::VersionMetrics;
use work_queue::WorkQueueMetrics;

use crate::lifecycle::LifecycleMetrics;
use crate::metrics::rest::RestMetrics;
use crate::metrics::trace::DroppedSpans;
use crate::name::PluginName;
use crate::outgoing::HttpMetrics;
use crate::recording::RecordingMetrics;

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
    reconciles: ReconcileMetrics,
    versions: VersionMetrics,
    pub(crate) lifecycle: LifecycleMetrics,
    changes: ChangeMetrics,
    imports: ImportMetrics,
    host_memory: HostMemoryMetrics,
    task_panics: Family<ByController, Counter>,
    work_queue: WorkQueueMetrics,
    http: HttpMetrics,
    pub(crate) rest: RestMetrics,
    pub(crate) dropped_spans: DroppedSpans,
    pub(crate) recording: RecordingMetrics,
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
    /// Creates the families and registers each under its name and help text, which docs/metrics.md repeats. The text format appends
    /// `_total` to the names of counters.
    pub fn register(registry: &mut Registry) -> Self {
        register_build(registry);
        Self {
            lifecycle: LifecycleMetrics::register(registry),
            http: HttpMetrics::register(registry),
            rest: RestMetrics::register(registry),
            dropped_spans: DroppedSpans::register(registry),
            recording: RecordingMetrics::register(registry),
            ready: registered(
                registry,
                "pilothouse_ready",
                "1 if the host is ready, as `/readyz` says, else 0",
                Gauge::default(),
            ),
            reconciles: ReconcileMetrics::register(registry),
            versions: VersionMetrics::register(registry),
            changes: ChangeMetrics::register(registry),
            imports: ImportMetrics::register(registry),
            host_memory: HostMemoryMetrics::register(registry),
            task_panics: registered(
                registry,
                "pilothouse_task_panics",
                "Panics of the plugin's tasks in the host, each of which is restarted: a defect of the host",
                Family::default(),
            ),
            work_queue: WorkQueueMetrics::register(registry),
        }
    }

    /// Returns the metrics of one plugin.
    pub(crate) fn for_plugin(&self, plugin: &PluginName) -> Arc<PluginMetrics> {
        let controller = ByController { controller: plugin.to_shared() };
        let queue = ByQueue { name: plugin.to_shared(), controller: plugin.to_shared() };
        let result = |result| ByResult { controller: plugin.to_shared(), result };
        Arc::new(PluginMetrics {
            http: self.http.for_plugin(plugin),
            succeeded: self.reconciles.results.get_or_create_owned(&result("success")),
            requeued_after: self.reconciles.results.get_or_create_owned(&result("requeue_after")),
            failed: self.reconciles.results.get_or_create_owned(&result("error")),
            canary_succeeded: self.versions.canary_reconciles.get_or_create_owned(&result("success")),
            canary_failed: self.versions.canary_reconciles.get_or_create_owned(&result("error")),
            shadow_agreed: self.versions.shadow_reconciles.get_or_create_owned(&result("agreed")),
            shadow_differed: self.versions.shadow_reconciles.get_or_create_owned(&result("differed")),
            shadow_skipped: self.versions.shadow_reconciles.get_or_create_owned(&result("skipped")),
            shadow_dropped: self.versions.shadow_reconciles.get_or_create_owned(&result("dropped")),
            errors: self.reconciles.errors.get_or_create_owned(&controller),
            terminal_errors: self.reconciles.terminal_errors.get_or_create_owned(&controller),
            faults: self.reconciles.faults.get_or_create_owned(&controller),
            timeouts: self.reconciles.timeouts.get_or_create_owned(&controller),
            reconcile_time: self.reconciles.reconcile_time.get_or_create_owned(&controller),
            event_to_reconcile: self.reconciles.event_to_reconcile.get_or_create_owned(&controller),
            event_to_write: self.reconciles.event_to_write.get_or_create_owned(&controller),
            active_workers: self.reconciles.active_workers.get_or_create_owned(&controller),
            max_concurrent: self.reconciles.max_concurrent.get_or_create_owned(&controller),
            loaded: self.versions.reloads.get_or_create_owned(&result("loaded")),
            refused: self.versions.reloads.get_or_create_owned(&result("refused")),
            automatic_rollbacks: self.versions.rollbacks.get_or_create_owned(&result("automatic")),
            operator_rollbacks: self.versions.rollbacks.get_or_create_owned(&result("operator")),
            state: self.lifecycle.for_plugin(plugin),
            predicate_errors: self.changes.predicate_errors.get_or_create_owned(&controller),
            events_dropped: self.imports.events_dropped.get_or_create_owned(&controller),
            observed: self.changes.observed.get_or_create_owned(&controller),
            observe_errors: self.changes.observe_errors.get_or_create_owned(&controller),
            parked: self.changes.parked.get_or_create_owned(&controller),
            index_errors: self.changes.index_errors.get_or_create_owned(&controller),
            throttled: self.imports.throttled.get_or_create_owned(&controller),
            metrics_refused: self.imports.metrics_refused.get_or_create_owned(&controller),
            unknown_writes: self.imports.unknown_writes.get_or_create_owned(&controller),
            host_memory: HostMemoryKind::ALL.map(|kind| {
                let kind = ByKind { controller: plugin.to_shared(), kind: kind.as_str() };
                self.host_memory.bytes.get_or_create_owned(&kind)
            }),
            host_memory_limit: self.host_memory.limit.get_or_create_owned(&controller),
            host_memory_refusals: self.host_memory.refusals.get_or_create_owned(&controller),
            task_panics: self.task_panics.get_or_create_owned(&controller),
            hot_loops: self.reconciles.hot_loops.get_or_create_owned(&controller),
            hot_loop_rounds: self.reconciles.hot_loop_rounds.get_or_create_owned(&controller),
            queue_adds: self.work_queue.adds.get_or_create_owned(&queue),
            queue_retries: self.work_queue.retries.get_or_create_owned(&queue),
            queue_depth: self.work_queue.depth.get_or_create_owned(&queue),
            queue_latency: self.work_queue.latency.get_or_create_owned(&queue),
            work_duration: self.work_queue.work_duration.get_or_create_owned(&queue),
            unfinished_work: self.work_queue.unfinished_work.get_or_create_owned(&queue),
            longest_running: self.work_queue.longest_running.get_or_create_owned(&queue),
        })
    }
}

#[cfg(test)]
mod tests;
