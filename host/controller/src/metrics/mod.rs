//! What the host counts of its plugins, under the names that controller-runtime users' dashboards have.

pub(crate) mod compile;
pub(crate) mod guest;
pub(crate) mod informers;
pub(crate) mod rest;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::QueueMetrics;
use pilothouse_plugin::{HostMemory, HostMemoryKind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::lifecycle::{LifecycleMetrics, StateMetrics};
use crate::metrics::rest::RestMetrics;
use crate::name::PluginName;
use crate::outgoing::{HttpCounters, HttpMetrics};

/// Label sets have one value per plugin, or per plugin and outcome: never one that a guest can choose. A plugin's name is shared by
/// all of its label sets, of which there are dozens.
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

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The families of all plugins. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    reconciles: Family<ByResult, Counter>,
    errors: Family<ByController, Counter>,
    terminal_errors: Family<ByController, Counter>,
    panics: Family<ByController, Counter>,
    timeouts: Family<ByController, Counter>,
    reconcile_time: Histograms<ByController>,
    active_workers: Family<ByController, Gauge>,
    max_concurrent: Family<ByController, Gauge>,
    reloads: Family<ByResult, Counter>,
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
    queue_latency: Histograms<ByQueue>,
    work_duration: Histograms<ByQueue>,
    unfinished_work: Family<ByQueue, Gauge<f64, std::sync::atomic::AtomicU64>>,
    longest_running: Family<ByQueue, Gauge<f64, std::sync::atomic::AtomicU64>>,
    http: HttpMetrics,
    pub(crate) rest: RestMetrics,
}

/// 5 ms to 60 s, as controller-runtime has it, roughly.
fn reconcile_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 14))
}

/// 10 ns to 10 s, as client-go's work queue has it.
fn queue_buckets() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 10))
}

impl Metrics {
    /// Makes the families and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reconciles: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            reconcile_time: Family::new_with_constructor(reconcile_buckets),
            active_workers: Family::default(),
            max_concurrent: Family::default(),
            reloads: Family::default(),
            lifecycle: LifecycleMetrics::register(registry),
            predicate_errors: Family::default(),
            events_dropped: Family::default(),
            observed: Family::default(),
            observe_errors: Family::default(),
            parked: Family::default(),
            index_errors: Family::default(),
            throttled: Family::default(),
            metrics_refused: Family::default(),
            unknown_writes: Family::default(),
            host_memory: Family::default(),
            host_memory_limit: Family::default(),
            host_memory_refusals: Family::default(),
            task_panics: Family::default(),
            hot_loops: Family::default(),
            hot_loop_rounds: Family::default(),
            queue_adds: Family::default(),
            queue_retries: Family::default(),
            queue_depth: Family::default(),
            queue_latency: Family::new_with_constructor(queue_buckets),
            work_duration: Family::new_with_constructor(queue_buckets),
            unfinished_work: Family::default(),
            longest_running: Family::default(),
            http: HttpMetrics::register(registry),
            rest: RestMetrics::register(registry),
        };
        metrics.register_reconciles(registry);
        metrics.register_queues(registry);
        metrics.register_host_memory(registry);
        metrics
    }

    fn register_reconciles(&self, registry: &mut Registry) {
        let runtime = registry.sub_registry_with_prefix("controller_runtime");
        runtime.register("reconcile", "Reconciles by plugin and result", self.reconciles.clone());
        runtime.register("reconcile_errors", "Reconciles that failed", self.errors.clone());
        runtime.register(
            "terminal_reconcile_errors",
            "Reconciles that failed for good",
            self.terminal_errors.clone(),
        );
        runtime.register("reconcile_panics", "Reconciles that ended in a trap", self.panics.clone());
        runtime.register("reconcile_timeouts", "Reconciles that took too long", self.timeouts.clone());
        runtime.register("reconcile_time_seconds", "Duration of reconciles", self.reconcile_time.clone());
        runtime.register("active_workers", "Workers that reconcile now", self.active_workers.clone());
        runtime.register("max_concurrent_reconciles", "Workers of the plugin", self.max_concurrent.clone());
        let own = registry.sub_registry_with_prefix("pilothouse");
        own.register("plugin_reloads", "Files taken or refused, by plugin and result", self.reloads.clone());
        own.register(
            "predicate_errors",
            "Predicates that failed, counted as true",
            self.predicate_errors.clone(),
        );
        own.register(
            "events_dropped",
            "Events dropped beyond limits.eventsPerSecond, or because the recorder was behind",
            self.events_dropped.clone(),
        );
        own.register("observed_notifications", "Notifications that observers took", self.observed.clone());
        own.register("observe_errors", "Batches that an observer failed at", self.observe_errors.clone());
        own.register(
            "observe_parked",
            "Objects set aside, until they change, because an observer fails at them",
            self.parked.clone(),
        );
        own.register("index_errors", "Objects without index values after a fault", self.index_errors.clone());
        own.register("client_throttled", "Requests that waited for limits.clientQps", self.throttled.clone());
        own.register(
            "guest_metrics_refused",
            "Uses of a plugin's own metrics that were not recorded",
            self.metrics_refused.clone(),
        );
        own.register(
            "unknown_writes",
            "Writes whose answer never came or did not tell",
            self.unknown_writes.clone(),
        );
        own.register("task_panics", "Panics of the plugin's tasks in the host", self.task_panics.clone());
        own.register("hot_loops", "Keys found in a loop of the plugin's own making", self.hot_loops.clone());
        own.register(
            "hot_loop_rounds",
            "Reconciles in such a loop since it was found",
            self.hot_loop_rounds.clone(),
        );
    }

    fn register_host_memory(&self, registry: &mut Registry) {
        let own = registry.sub_registry_with_prefix("pilothouse");
        own.register(
            "plugin_host_memory_bytes",
            "Bytes that the host holds for the plugin, by kind",
            self.host_memory.clone(),
        );
        own.register(
            "plugin_host_memory_limit_bytes",
            "Bytes that the host may hold for the plugin, limits.hostMemory",
            self.host_memory_limit.clone(),
        );
        own.register(
            "host_memory_refusals",
            "Work left out, outside of calls, because limits.hostMemory was exceeded",
            self.host_memory_refusals.clone(),
        );
    }

    fn register_queues(&self, registry: &mut Registry) {
        let queue = registry.sub_registry_with_prefix("workqueue");
        queue.register("adds", "Keys that became ready", self.queue_adds.clone());
        queue.register("retries", "Rate-limited adds", self.queue_retries.clone());
        queue.register("depth", "Keys that are ready", self.queue_depth.clone());
        queue.register("queue_duration_seconds", "How long keys were ready", self.queue_latency.clone());
        queue.register("work_duration_seconds", "How long keys were worked on", self.work_duration.clone());
        queue.register(
            "unfinished_work_seconds",
            "Time spent on keys not done yet",
            self.unfinished_work.clone(),
        );
        queue.register(
            "longest_running_processor_seconds",
            "The longest of them",
            self.longest_running.clone(),
        );
    }

    /// The part of one plugin.
    pub(crate) fn of(&self, plugin: &PluginName) -> Arc<PluginMetrics> {
        let controller = ByController { controller: plugin.to_shared() };
        let queue = ByQueue { name: plugin.to_shared(), controller: plugin.to_shared() };
        let result = |result| ByResult { controller: plugin.to_shared(), result };
        Arc::new(PluginMetrics {
            http: self.http.of(plugin),
            succeeded: self.reconciles.get_or_create_owned(&result("success")),
            requeued_after: self.reconciles.get_or_create_owned(&result("requeue_after")),
            failed: self.reconciles.get_or_create_owned(&result("error")),
            errors: self.errors.get_or_create_owned(&controller),
            terminal_errors: self.terminal_errors.get_or_create_owned(&controller),
            panics: self.panics.get_or_create_owned(&controller),
            timeouts: self.timeouts.get_or_create_owned(&controller),
            reconcile_time: self.reconcile_time.get_or_create_owned(&controller),
            active_workers: self.active_workers.get_or_create_owned(&controller),
            max_concurrent: self.max_concurrent.get_or_create_owned(&controller),
            loaded: self.reloads.get_or_create_owned(&result("loaded")),
            refused: self.reloads.get_or_create_owned(&result("refused")),
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

/// The counters of one plugin, looked up once so that counting takes no lock of a family.
pub(crate) struct PluginMetrics {
    pub(crate) http: HttpCounters,
    pub(crate) succeeded: Counter,
    pub(crate) requeued_after: Counter,
    pub(crate) failed: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal_errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) reconcile_time: Histogram,
    pub(crate) active_workers: Gauge,
    pub(crate) max_concurrent: Gauge,
    pub(crate) loaded: Counter,
    pub(crate) refused: Counter,
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
    host_memory: [Gauge; HostMemoryKind::ALL.len()],
    host_memory_limit: Gauge,
    pub(crate) host_memory_refusals: Counter,
    pub(crate) task_panics: Counter,
    pub(crate) hot_loops: Counter,
    pub(crate) hot_loop_rounds: Counter,
    queue_adds: Counter,
    queue_retries: Counter,
    pub(crate) queue_depth: Gauge,
    queue_latency: Histogram,
    work_duration: Histogram,
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

    /// The counts that `/api/plugins` shows.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 19] {
        [
            ("reconciles", self.succeeded.get() + self.requeued_after.get() + self.failed.get()),
            ("succeeded", self.succeeded.get()),
            ("requeuedAfter", self.requeued_after.get()),
            ("errors", self.errors.get()),
            ("terminalErrors", self.terminal_errors.get()),
            ("traps", self.panics.get()),
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

impl QueueMetrics for PluginMetrics {
    fn added(&self) {
        self.queue_adds.inc();
    }

    fn retried(&self) {
        self.queue_retries.inc();
    }

    fn waited(&self, ready_for: Duration) {
        self.queue_latency.observe(ready_for.as_secs_f64());
    }

    fn worked(&self, held_for: Duration) {
        self.work_duration.observe(held_for.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
