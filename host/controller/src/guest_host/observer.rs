//! The observer of all plugins of a host.

use std::sync::Arc;

use pilothouse_plugin::CallObserver;

use crate::PluginName;

/// Observes the guests of all plugins of a host, to record them or to compare them.
pub trait PluginObserver: Send + Sync + 'static {
    /// Returns the observer of a version's guests; `None` if they need not be observed. Called several times for each version: for the guests
    /// that describe it, for those that compute index values, and for those that reconcile and observe.
    fn observe(&self, version: &ObservedVersion<'_>) -> Option<Arc<dyn CallObserver>>;
}

/// A version of a plugin whose guests may be observed.
#[derive(Clone, Copy, Debug)]
pub struct ObservedVersion<'a> {
    /// The plugin's name.
    pub plugin: &'a PluginName,
    /// SHA-256 of the .wasm, in hex.
    pub digest: &'a str,
    /// The operator's configuration as JSON text.
    pub config: &'a str,
}
