//! What a host shows: the status of its plugins, whether it is ready, logs and metrics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use pilothouse_informer::InformerDump;
use prometheus_client::registry::Registry;

use super::{PluginHost, load_progress};
use crate::lifecycle::PluginStatus;
use crate::logs::PluginLogs;
use crate::metrics::compile::CompileCollector;
use crate::metrics::guest::GuestMetrics;
use crate::metrics::informers::InformerCollector;
use crate::metrics::process::ProcessCollector;
use crate::name::PluginName;

impl PluginHost {
    /// Returns the status of each plugin, in the order of their names, then that of the files that cannot be plugins.
    #[must_use]
    pub fn status(&self) -> Vec<PluginStatus> {
        let mut status: Vec<_> =
            self.shared.status_sources.read().values().map(|source| source.status()).collect();
        let refused = self.shared.refused.read();
        // A link whose target was removed is shown as such, and not as a plugin whose file was removed.
        status.retain(|status| !status.removed || refused.iter().all(|file| file.stem() != status.name));
        status.extend(refused.iter().map(|file| PluginStatus::refused(file.stem(), file)));
        if let Some(provided) = self.shared.provided.get() {
            provided.add_problems(&mut status);
            provided.add_origins(&mut status);
        }
        status
    }

    /// Returns the status of each plugin that is not in the state `Running`, in the order of their names.
    #[must_use]
    pub fn status_of_plugins_not_running(&self) -> Vec<PluginStatus> {
        let sources = self.shared.status_sources.read();
        sources.values().filter_map(|source| source.status_unless_running()).collect()
    }

    /// Whether the host is ready: the API server has accepted its credentials, the directory was read, and every plugin runs, has failed, is
    /// stopped, or waits for something outside of the host. A server that becomes unreachable later does not make the host unready, because
    /// another replica could not do better. [`PluginStatus::ready`] says whether a plugin does its work.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        // The full status of a plugin counts its queue's keys, which is too much for a path that needs no credentials.
        let sources = self.shared.status_sources.read();
        self.shared.scanned.load(Ordering::Relaxed)
            && self.shared.reached.load(Ordering::Relaxed)
            && !sources.values().any(|source| load_progress::is_loading(source.state()))
    }

    /// Whether [`status`](Self::status) has a plugin of this name.
    #[must_use]
    pub fn has_plugin(&self, name: &PluginName) -> bool {
        self.shared.status_sources.read().contains_key(name)
            || self.shared.refused.read().iter().any(|file| file.stem() == name.as_str())
            || self.shared.provided.get().is_some_and(|provided| provided.has_problem(name.as_str()))
    }

    /// The plugins' log lines.
    #[must_use]
    pub fn logs(&self) -> &PluginLogs {
        &self.shared.logs
    }

    /// Returns a client whose requests are counted as the host's own. Must be called within a tokio runtime.
    #[must_use]
    pub fn measure(&self, client: kube::Client) -> kube::Client {
        self.shared.metrics.rest.measure(client, &self.shared.options.api_server)
    }

    /// The metrics that guests record.
    #[must_use]
    pub fn guest_metrics(&self) -> &GuestMetrics {
        &self.shared.guest_metrics
    }

    /// Registers the metrics of the informers, the engine and the process.
    pub fn register_collectors(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(InformerCollector(self.shared.services.informers.clone())));
        registry.register_collector(Box::new(CompileCollector(self.shared.services.engine.clone())));
        registry.register_collector(Box::new(ProcessCollector::of_this_process()));
    }

    /// Returns the state of every informer, for bug reports. Contains no content of objects.
    #[must_use]
    pub fn informers(&self) -> Vec<InformerDump> {
        self.shared.services.informers.informers()
    }

    /// Updates the gauges of the host and of all plugins. Must be called before the metrics are scraped.
    pub fn update_gauges(&self) {
        self.shared.metrics.ready.set(i64::from(self.is_ready()));
        let sources = self.shared.status_sources.read();
        sources.values().for_each(|source| source.update_gauges());
        if let Some(provided) = self.shared.provided.get() {
            let running: BTreeMap<_, _> =
                sources.iter().map(|(name, source)| (name.as_str(), source)).collect();
            let has_task = |name: &str| running.get(name).is_some_and(|source| !source.status().removed);
            provided.expose_states(&self.shared.metrics.lifecycle, has_task);
        }
    }
}
