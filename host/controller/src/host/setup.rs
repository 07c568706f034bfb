//! What is set before a host runs: other sources of plugins, recorders, and what simulations change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{PluginHost, ProvidedPlugins};
use crate::client::ResourceLists;
use crate::guest_host::CallRecorderFactory;
use crate::name::PluginName;
use crate::outgoing::HttpTransport;
use crate::trace::Tracer;

impl PluginHost {
    /// Also runs the plugins of another source. Must be called before [`run`](Self::run); only the first call has an effect.
    pub fn add_provided_plugins(&self, provided: ProvidedPlugins) {
        let _ = self.shared.provided.set(provided);
    }

    /// Traces the reconciles of all plugins. Must be called before [`run`](Self::run); only the first call has an effect.
    pub fn set_tracer(&self, tracer: Tracer) {
        let _ = self.shared.tracer.set(tracer);
    }

    /// Reports the calls of all plugins' guests to the recorders of this factory. Must be called before [`run`](Self::run); only the first call
    /// has an effect.
    pub fn set_recorder_factory(&self, factory: Arc<dyn CallRecorderFactory>) {
        let _ = self.shared.recorder_factory.set(factory);
    }

    /// Runs the version in each of these files in the shadow of the plugin with that name, unless its sidecar names another one. Must be called
    /// before [`run`](Self::run); only the first call has an effect.
    pub fn set_shadows(&self, shadows: BTreeMap<PluginName, PathBuf>) {
        let _ = self.shared.shadows.set(shadows);
    }

    /// Gives plugins what other frameworks give controllers: their reads show their own writes once a watch delivers them, and a key
    /// whose write had no answer is retried like any other. For simulations that show what these guarantees are worth. Must be called
    /// before [`run`](Self::run).
    pub fn disable_write_guarantees(&self) {
        self.shared.write_guarantees.store(false, Ordering::Relaxed);
    }

    /// From now on, guests do not learn why a key is reconciled: each request has the reason `other` alone, and is a first attempt. For
    /// simulations that show whether a plugin does the same without that information.
    pub fn withhold_reasons(&self) {
        self.shared.withholds_reasons.store(true, Ordering::Relaxed);
    }

    /// Queues each object of each plugin's target watches as a resync does. For simulations that show whether a plugin is at rest.
    pub fn requeue_all(&self) {
        self.shared.status_sources.read().values().for_each(|source| source.requeue_all());
    }

    /// Answers plugins' HTTP requests by this transport in place of the network, for simulations. Must be called before
    /// [`run`](Self::run); only the first call has an effect.
    pub fn set_http_transport(&self, transport: Arc<dyn HttpTransport>) {
        let _ = self.shared.http_transport.set(transport);
    }

    /// Shares parsed resource lists with other hosts, for simulations.
    pub fn share_resource_lists(&self, lists: ResourceLists) {
        self.shared.services.discovery.share_lists(lists);
    }
}
