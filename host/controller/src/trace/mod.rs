//! Traces of reconciles: what led to one, the reconcile itself, and its requests.
//!
//! ```text
//! watch.event ◀─link─ reconcile ─┬─ queue.wait
//!                                ├─ guest.call
//!                                ├─ k8s.read
//!                                ├─ http.out
//!                                └─ k8s.write ── watch.event ◀─link─ reconcile (of another plugin)
//! ```
//!
//! Each reconcile is a trace of its own, so that plugins that cause each other's reconciles make no endless trace. The event of a write belongs
//! to the trace of the write.
//!
//! The spans of a reconcile are buffered until its end, which decides: a share of all is exported, and each one that failed or was slow.
//! Without tracing, a [`Tracer`] is `None`, and nothing is allocated.

mod decision;
mod events;
mod ids;
mod kept;
mod queue;
mod reconcile;
mod sampling;
mod source;
mod span;
#[cfg(test)]
mod tests;
mod written;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_model::Notification;
use pilothouse_plugin::{HostMemory, Reason};
use tokio::time::Instant;

use crate::environment::Environment;
use crate::metrics::Metrics;
use crate::metrics::trace::DroppedSpans;
use events::EventRecord;
pub(crate) use events::EventRecords;
pub(crate) use ids::TRACEPARENT;
pub use ids::{SpanContext, SpanId, TraceId};
use kept::KeptTraces;
pub use queue::SpanReceiver;
use queue::SpanSender;
pub(crate) use reconcile::{EndedReconcile, ExportedTrace, OpenSpan, ReconcileTrace};
use sampling::Sampling;
use source::TraceSource;
pub use span::{Attribute, AttributeValue, Span, SpanKind};
use written::WrittenVersions;

/// How many reconciles in a row are sampled because of the one before.
const MAX_HOPS: u8 = 8;

/// Which reconciles are exported.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions {
    /// The share of all reconciles, from 0 to 1.
    pub ratio: f64,
    /// Reconciles that take this long are exported in any case.
    pub slow: Duration,
}

/// Records traces, or does nothing by default. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Shared>>);

/// What all plugins share.
struct Shared {
    sampling: Sampling,
    source: Box<dyn TraceSource>,
    written: WrittenVersions,
    kept: Mutex<KeptTraces>,
    sender: SpanSender,
}

impl Tracer {
    /// Creates a tracer, and the queue from which its spans are exported. The metrics count what is dropped. The identifiers and times of spans come
    /// from the environment.
    #[must_use]
    pub fn new(options: &TraceOptions, metrics: &Metrics, environment: &Environment) -> (Self, SpanReceiver) {
        Self::with_source(options, metrics.dropped_spans.clone(), Box::new(environment.clone()))
    }

    fn with_source(
        options: &TraceOptions,
        dropped: DroppedSpans,
        source: Box<dyn TraceSource>,
    ) -> (Self, SpanReceiver) {
        let (sender, receiver) = queue::queue(dropped);
        let shared = Shared {
            sampling: Sampling::new(options.ratio, options.slow),
            source,
            written: WrittenVersions::default(),
            kept: Mutex::default(),
            sender,
        };
        (Self(Some(Arc::new(shared))), receiver)
    }

    /// Returns the record of a change that is about to queue a key, which is charged to the plugin; `None` without tracing, and if there is no
    /// room for it.
    pub(crate) fn event(
        &self,
        notification: &Notification,
        watch: &Arc<str>,
        change: Reason,
        received: Instant,
        memory: &HostMemory,
    ) -> Option<Box<EventRecords>> {
        let shared = self.0.as_ref()?;
        let Some(charge) = events::charge(memory) else {
            shared.sender.dropped.by_limit(1);
            return None;
        };
        let event = EventRecord {
            received,
            queued: Instant::now(),
            watch: Arc::clone(watch),
            change,
            resource_version: notification.object().resource_version().parse().unwrap_or_default(),
            version: shared.written.version_of(notification),
            _charge: charge,
        };
        Some(Box::new(event.into()))
    }

    /// Begins the trace of a key that a worker has taken, after it was ready for `waited`; `None` without tracing.
    pub(crate) fn begin(
        &self,
        waited: Duration,
        events: Option<&EventRecords>,
    ) -> Option<Arc<ReconcileTrace>> {
        let shared = self.0.as_ref()?;
        let hops = events.and_then(|events| shared.sampled_hops(events));
        Some(Arc::new(ReconcileTrace::begin(shared, waited, hops)))
    }

    /// Returns the identifier of a trace that the journal refers to; `None` if it was forgotten.
    pub(crate) fn exported(&self, number: u32) -> Option<TraceId> {
        self.0.as_ref()?.kept.lock().find(number)
    }
}

impl Shared {
    fn trace_id(&self) -> TraceId {
        TraceId(self.identifier())
    }

    fn span_id(&self) -> SpanId {
        SpanId(self.identifier())
    }

    /// Returns random bytes of which one is not zero.
    fn identifier<const LENGTH: usize>(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        self.source.fill(&mut bytes);
        if bytes.iter().all(|byte| *byte == 0) {
            bytes[LENGTH - 1] = 1;
        }
        bytes
    }

    /// Returns the number of hops if one of the changes is a write of a sampled reconcile, so that this one is sampled, too.
    fn sampled_hops(&self, events: &EventRecords) -> Option<u8> {
        let writes = events.iter().filter_map(|event| self.written.find(event.version));
        let mut sampled =
            writes.filter(|write| write.hops < MAX_HOPS && write.decision.samples_caused_reconcile());
        sampled.next().map(|write| write.hops + 1)
    }
}
