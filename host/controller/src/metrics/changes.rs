//! The metrics of what changes of objects start beside reconciles: predicates, the observer and computed indexes.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{ByController, registered};

/// The metric families of predicates, observers and computed indexes. Cheap to clone.
#[derive(Clone)]
pub(super) struct ChangeMetrics {
    pub(super) predicate_errors: Family<ByController, Counter>,
    pub(super) observed: Family<ByController, Counter>,
    pub(super) observe_errors: Family<ByController, Counter>,
    pub(super) parked: Family<ByController, Counter>,
    pub(super) index_errors: Family<ByController, Counter>,
}

impl ChangeMetrics {
    /// Creates and registers the families.
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            predicate_errors: registered(
                registry,
                "pilothouse_predicate_errors",
                "Evaluations of a predicate that failed; the host admits the change",
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
        }
    }
}
