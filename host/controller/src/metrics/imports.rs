//! The metrics of what guests ask of the host: Events, requests to the API server and metrics of their own.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{ByController, registered};

/// The metric families of Events, requests and guests' metrics. Cheap to clone.
#[derive(Clone)]
pub(super) struct ImportMetrics {
    pub(super) events_dropped: Family<ByController, Counter>,
    pub(super) throttled: Family<ByController, Counter>,
    pub(super) metrics_refused: Family<ByController, Counter>,
    pub(super) unknown_writes: Family<ByController, Counter>,
}

impl ImportMetrics {
    /// Creates and registers the families.
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            events_dropped: registered(
                registry,
                "pilothouse_events_dropped",
                "Events dropped beyond `limits.eventsPerSecond` or `limits.hostMemory`, or because 128 Events of the plugin were waiting",
                Family::default(),
            ),
            throttled: registered(
                registry,
                "pilothouse_client_throttled",
                "Requests that waited because `limits.clientQps` was used up",
                Family::default(),
            ),
            metrics_refused: registered(
                registry,
                "pilothouse_guest_metrics_refused",
                "Uses of the plugin's own metrics that were not recorded: beyond `limits.metricSeries`, of another kind, or with a name that another metric has",
                Family::default(),
            ),
            unknown_writes: registered(
                registry,
                "pilothouse_unknown_writes",
                "Writes without a conclusive response; a live get decides whether they took effect",
                Family::default(),
            ),
        }
    }
}
