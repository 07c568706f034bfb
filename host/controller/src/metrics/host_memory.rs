//! The metrics of the memory that the host holds for plugins.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{ByController, ByKind, registered};

/// The metric families of host memory. Cheap to clone.
#[derive(Clone)]
pub(super) struct HostMemoryMetrics {
    pub(super) bytes: Family<ByKind, Gauge>,
    pub(super) limit: Family<ByController, Gauge>,
    pub(super) refusals: Family<ByController, Counter>,
}

impl HostMemoryMetrics {
    /// Creates and registers the families.
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            bytes: registered(
                registry,
                "pilothouse_plugin_host_memory_bytes",
                "Bytes that the host holds for the plugin; `kind` is one of the kinds in limits.md",
                Family::default(),
            ),
            limit: registered(
                registry,
                "pilothouse_plugin_host_memory_limit_bytes",
                "`limits.hostMemory` of the plugin",
                Family::default(),
            ),
            refusals: registered(
                registry,
                "pilothouse_host_memory_refusals",
                "Work left out, outside of calls, because `limits.hostMemory` was exceeded",
                Family::default(),
            ),
        }
    }
}
