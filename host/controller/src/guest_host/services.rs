//! The services that all versions of one plugin share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use pilothouse_plugin::{HostMemory, HostMemoryExceeded, HostMemoryKind, LogLevel};
use tokio::time::Instant;

use crate::cache::own_writes::PluginWrites;
use crate::client::EventRecorder;
use crate::client::quota::{QuotaBucket, RateLimiter};
use crate::config::current_grants::CurrentGrants;
use crate::config::limits::PluginLimits;
use crate::environment::Environment;
use crate::explain::journal::Journal;
use crate::guest_host::CallRecorderFactory;
use crate::lifecycle::task_panics::TaskPanics;
use crate::lifecycle::{CompileStatus, RecentErrors};
use crate::logs::{LogThrottle, PluginLog};
use crate::metrics::PluginMetrics;
use crate::metrics::guest::GuestMetrics;
use crate::name::PluginName;
use crate::rollout::Rollout;
use crate::runtime::hot_loop::HotLoops;
use crate::runtime::queue::PluginQueue;
use crate::runtime::slow_reconciles::SlowReconciles;
use crate::shadow::ShadowReport;
use crate::trace::Tracer;

/// What a version needs besides its watches; the same for all versions of a plugin. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PluginServices {
    pub(crate) name: PluginName,
    pub(crate) current_grants: CurrentGrants,
    pub(crate) queue: PluginQueue,
    pub(crate) events: EventRecorder,
    /// All log lines about the plugin go through this.
    pub(crate) log: PluginLog,
    pub(crate) metrics: Arc<PluginMetrics>,
    pub(crate) writes: PluginWrites,
    pub(crate) hot_loops: HotLoops,
    /// What happened to its keys.
    pub(crate) journal: Journal,
    pub(crate) guest_metrics: GuestMetrics,
    /// The account of the memory that the host uses for the plugin.
    pub(crate) host_memory: HostMemory,
    pub(crate) rate_limiters: Arc<RateLimiters>,
    /// When the log last reported that `host_memory` is exceeded.
    pub(crate) refusals: Arc<LogThrottle>,
    /// The panics of the plugin's tasks.
    pub(crate) panics: TaskPanics,
    /// Whether an operator has paused the plugin. Locked while that is passed on to the running version.
    pub(crate) paused: Arc<Mutex<bool>>,
    /// The calls of its guests that failed.
    pub(crate) recent_errors: RecentErrors,
    /// The reconciles that took longest.
    pub(crate) slow_reconciles: SlowReconciles,
    /// Whether its code is being compiled.
    pub(crate) compile_status: CompileStatus,
    /// Which of its versions runs.
    pub(crate) rollout: Rollout,
    /// Records the traces of reconciles.
    pub(crate) tracer: Tracer,
    /// Whether its reads show its own writes at once, and a write without an answer holds its key.
    pub(crate) write_guarantees: bool,
    /// Whether its guests do not learn why a key is reconciled. Shared by all plugins of the host.
    pub(crate) withholds_reasons: Arc<AtomicBool>,
    /// Observes its guests.
    pub(crate) recorder_factory: Option<Arc<dyn CallRecorderFactory>>,
    /// What is known of the new version that runs in the shadow of the running one.
    pub(crate) shadow: Arc<ShadowReport>,
    /// The time of day and the randomness of its guests.
    pub(crate) environment: Environment,
    /// When the host started; the zero of the guest's monotonic clock.
    pub(crate) started: Instant,
}

/// The rate limiters of a plugin, for actions that cost the cluster or other plugins something. They outlive versions, so a reload does not
/// renew their bursts.
pub(crate) struct RateLimiters {
    pub(crate) requests: RateLimiter,
    pub(crate) events: Mutex<QuotaBucket>,
}

impl RateLimiters {
    /// The burst of Events, in seconds of their rate.
    const EVENT_BURST: u32 = 10;

    /// Applies the limits of the version that runs from now on. What was used of a burst stays used.
    pub(crate) fn set_limits(&self, limits: &PluginLimits) {
        self.requests.set_rate(limits.client_qps, limits.client_burst);
        let events = limits.events_per_second;
        self.events.lock().set_rate(events, events.saturating_mul(Self::EVENT_BURST), Instant::now());
    }
}

impl Default for RateLimiters {
    fn default() -> Self {
        let PluginLimits { client_qps, client_burst, events_per_second, .. } = PluginLimits::default();
        let now = Instant::now();
        let event_burst = events_per_second.saturating_mul(Self::EVENT_BURST);
        Self {
            requests: RateLimiter::new(client_qps, client_burst, now),
            events: Mutex::new(QuotaBucket::new(events_per_second, event_burst, now)),
        }
    }
}

impl PluginServices {
    /// Applies the limits of the version that runs from now on.
    pub(crate) fn set_limits(&self, limits: &PluginLimits) {
        self.host_memory.set_limit(limits.host_memory);
        self.rate_limiters.set_limits(limits);
    }

    /// Releases the memory of a plugin that has stopped for good, except for its log lines and its journal, which are
    /// shown with its status.
    pub(crate) fn release(&self) {
        self.writes.clear();
        self.hot_loops.forget_all();
        self.guest_metrics.forget(&self.name);
        let series = self.host_memory.used_by(HostMemoryKind::Metrics);
        self.host_memory.release(HostMemoryKind::Metrics, series);
    }

    /// Counts work that was refused because `limits.hostMemory` is exceeded, and logs it now and then.
    pub(crate) fn record_refusal(&self, refused: &dyn std::fmt::Display, exceeded: &HostMemoryExceeded) {
        self.metrics.host_memory_refusals.inc();
        if self.refusals.try_acquire(Instant::now()) {
            self.log.host(LogLevel::Warn, format_args!("{refused}: {exceeded}"), &[]);
        }
    }
}

#[cfg(test)]
impl PluginServices {
    /// Creates the services of a plugin with this name. The client sends its Events.
    pub(crate) fn for_test(name: &str, client: kube::Client) -> Self {
        let name = PluginName::of_file(std::path::Path::new(&format!("{name}.wasm"))).expect("a name");
        let metrics = crate::metrics::Metrics::register(&mut Default::default()).for_plugin(&name);
        let host_memory = HostMemory::default();
        let logs = crate::logs::PluginLogs::default();
        let shadow = Arc::new(ShadowReport::new(None, Arc::clone(&metrics), Default::default()));
        Self {
            current_grants: CurrentGrants::granting_writes(None),
            queue: PluginQueue::new(metrics.clone(), host_memory.clone()),
            events: EventRecorder::start(
                crate::client::ApiClient::new(client),
                "test".into(),
                logs.clone(),
                Default::default(),
            ),
            log: logs.for_plugin(&name),
            metrics,
            writes: PluginWrites::new(host_memory.clone()),
            hot_loops: HotLoops::new(name.to_shared(), crate::runtime::hot_loop::Authors::default()),
            guest_metrics: GuestMetrics::default(),
            journal: Journal::new(&host_memory, Default::default()),
            host_memory,
            rate_limiters: Arc::default(),
            refusals: Arc::default(),
            panics: TaskPanics::default(),
            paused: Arc::default(),
            recent_errors: RecentErrors::default(),
            slow_reconciles: SlowReconciles::default(),
            compile_status: CompileStatus::default(),
            rollout: Rollout::default(),
            tracer: Tracer::default(),
            write_guarantees: true,
            withholds_reasons: Arc::default(),
            recorder_factory: None,
            shadow,
            environment: Environment::default(),
            started: Instant::now(),
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_new_version_does_not_renew_the_bursts_of_its_plugin() {
        let limits =
            PluginLimits { client_qps: 1, client_burst: 2, events_per_second: 1, ..PluginLimits::default() };
        let limiters = RateLimiters::default();
        limiters.set_limits(&limits);
        let requests_wait = async || {
            let mut has_waited = false;
            limiters.requests.acquire(|| has_waited = true).await;
            has_waited
        };
        let take_events = || (0..20).filter(|_| limiters.events.lock().take(Instant::now()).is_ok()).count();
        assert_eq!(take_events(), 10);
        assert_eq!((requests_wait().await, requests_wait().await), (false, false));
        limiters.set_limits(&limits);
        assert_eq!(take_events(), 0);
        assert!(requests_wait().await);
    }
}
