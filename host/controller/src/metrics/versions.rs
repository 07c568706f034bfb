//! The metrics of versions: loads, canaries, shadows and rollbacks.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{ByResult, registered};

/// The metric families of versions. Cheap to clone.
#[derive(Clone)]
pub(super) struct VersionMetrics {
    pub(super) reloads: Family<ByResult, Counter>,
    pub(super) canary_reconciles: Family<ByResult, Counter>,
    pub(super) shadow_reconciles: Family<ByResult, Counter>,
    pub(super) rollbacks: Family<ByResult, Counter>,
}

impl VersionMetrics {
    /// Creates and registers the families.
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
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
        }
    }
}
