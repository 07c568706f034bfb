//! The metrics of recordings.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::metrics::registered;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

/// Counts recorded reconciles, and those that were to be recorded and are not. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RecordingMetrics {
    pub(super) recorded: Counter,
    pub(super) bytes: Counter,
    pub(super) dropped_by_queue: Counter,
    pub(super) dropped_by_size: Counter,
    pub(super) dropped_by_disk: Counter,
}

impl RecordingMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let recorded = registered(
            registry,
            "pilothouse_recording_reconciles",
            "Reconciles that `--record` has written",
            Counter::default(),
        );
        let bytes = registered(
            registry,
            "pilothouse_recording_bytes",
            "Bytes that `--record` has written",
            Counter::default(),
        );
        let dropped: Family<ByReason, Counter> = registered(
            registry,
            "pilothouse_recording_reconciles_dropped",
            "Reconciles that were not recorded; `reason` is `queue` (the writer is behind), `size` (too many calls, or too large objects) or `disk` (a file cannot be written)",
            Family::default(),
        );
        let of = |reason| dropped.get_or_create_owned(&ByReason { reason });
        Self {
            recorded,
            bytes,
            dropped_by_queue: of("queue"),
            dropped_by_size: of("size"),
            dropped_by_disk: of("disk"),
        }
    }
}
