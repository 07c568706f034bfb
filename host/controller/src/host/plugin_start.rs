//! Starts a plugin's task with the services that all versions of the plugin share.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pilothouse_plugin::HostMemory;
use tokio_util::sync::CancellationToken;

use super::PluginHost;
use crate::cache::own_writes::PluginWrites;
use crate::config::current_grants::CurrentGrants;
use crate::explain::journal::Journal;
use crate::guest_host::PluginServices;
use crate::lifecycle::task_panics::TaskPanics;
use crate::lifecycle::{CompileStatus, Lifecycle, RecentErrors};
use crate::load::LoadServices;
use crate::name::PluginName;
use crate::rollout::{RecordFile, Rollout};
use crate::runtime::hot_loop::HotLoops;
use crate::runtime::queue::PluginQueue;
use crate::runtime::slow_reconciles::SlowReconciles;
use crate::runtime::{PluginHandle, ReloadOptions};
use crate::shadow::ShadowReport;

impl PluginHost {
    /// Returns the file with what a restarted host must know of the plugin's versions; `None` without a cache directory.
    fn record_file(&self, plugin: &PluginName) -> Option<RecordFile> {
        let cache = self.shared.services.engine.cache_directory()?;
        Some(RecordFile::new(cache, &self.shared.options.plugins, plugin))
    }

    /// Starts the task of a plugin.
    pub(super) fn start_plugin(
        &self,
        name: &PluginName,
        shutdown: &CancellationToken,
        predecessor: Option<PluginHandle>,
    ) -> PluginHandle {
        let metrics = self.shared.metrics.for_plugin(name);
        let host_memory = HostMemory::default();
        self.shared.logs.charge_to(name, &host_memory);
        let environment = self.shared.options.environment.fork();
        let clock = environment.clock;
        let file = self.shared.shadows.get().and_then(|shadows| shadows.get(name)).cloned();
        let shadow = Arc::new(ShadowReport::new(file, Arc::clone(&metrics), clock));
        let plugin = PluginServices {
            name: name.clone(),
            current_grants: CurrentGrants::default(),
            queue: PluginQueue::new(metrics.clone(), host_memory.clone()),
            events: self.shared.events.clone(),
            log: self.shared.logs.for_plugin(name),
            metrics,
            writes: PluginWrites::new(host_memory.clone()),
            hot_loops: HotLoops::new(name.to_shared(), self.shared.authors.clone()).charged_to(&host_memory),
            guest_metrics: self.shared.guest_metrics.clone(),
            journal: Journal::new(&host_memory, clock),
            host_memory,
            rate_limiters: Arc::default(),
            refusals: Arc::default(),
            panics: TaskPanics::default(),
            paused: Arc::default(),
            recent_errors: RecentErrors::new(clock),
            slow_reconciles: SlowReconciles::default(),
            compile_status: CompileStatus::default(),
            rollout: Rollout::new(self.record_file(name), clock),
            tracer: self.shared.tracer.get().cloned().unwrap_or_default(),
            write_guarantees: self.shared.write_guarantees.load(Ordering::Relaxed),
            withholds_reasons: Arc::clone(&self.shared.withholds_reasons),
            recorder_factory: self.shared.recorder_factory.get().cloned(),
            shadow,
            environment,
            started: self.shared.started,
        };
        let options = ReloadOptions { requeue_all: self.shared.options.requeue_on_reload };
        let lifecycle = Lifecycle::begin(
            name.clone(),
            &self.shared.options.namespace,
            Arc::clone(&plugin.metrics),
            plugin.events.clone(),
            clock,
        );
        let http_transport = self.shared.http_transport.get().cloned();
        PluginHandle::start(
            plugin,
            lifecycle,
            LoadServices { http_transport, ..self.shared.services.clone() },
            options,
            shutdown.child_token(),
            predecessor,
        )
    }
}
