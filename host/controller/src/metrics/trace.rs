//! The metric of tracing.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::registered;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

/// Counts spans that were to be exported and are not. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DroppedSpans {
    full_queue: Counter,
    failed_export: Counter,
    limit: Counter,
}

impl DroppedSpans {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let family: Family<ByReason, Counter> = registered(
            registry,
            "pilothouse_trace_spans_dropped",
            "Spans that were not exported; `reason` is `queue` (the collector is too slow), `export` (the collector refused them, or did not answer) or `limit` (too many requests in one reconcile)",
            Family::default(),
        );
        let of = |reason| family.get_or_create_owned(&ByReason { reason });
        Self { full_queue: of("queue"), failed_export: of("export"), limit: of("limit") }
    }

    pub(crate) fn by_full_queue(&self, spans: usize) {
        self.full_queue.inc_by(spans as u64);
    }

    pub(crate) fn by_failed_export(&self, spans: usize) {
        self.failed_export.inc_by(spans as u64);
    }

    pub(crate) fn by_limit(&self, spans: usize) {
        self.limit.inc_by(spans as u64);
    }

    /// Returns the counts: full queue, failed export, limit.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> [u64; 3] {
        [self.full_queue.get(), self.failed_export.get(), self.limit.get()]
    }
}
