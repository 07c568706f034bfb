//! The spans of one reconcile, which are buffered until its end decides whether they are exported.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderValue;
use parking_lot::Mutex;
use pilothouse_plugin::{Failure, FaultKind, Outcome, Reason};
use tokio::time::Instant;

use super::Shared;
use super::decision::Decision;
use super::events::{EventRecord, EventRecords};
use super::ids::{SpanContext, SpanId, TraceId};
use super::span::{Attribute, Span, SpanKind};
use super::written::WriteSpan;
use crate::client::WriteOutcome;
use crate::explain::journal::{ReconcileOutcome, reason_name};
use crate::metrics::TraceLabels;
use crate::runtime::queue::ReconcileKey;

/// The number of requests of one reconcile whose spans are kept. Further ones are counted as dropped.
pub(super) const MAX_SPANS: usize = 128;

/// The trace of one reconcile.
pub(crate) struct ReconcileTrace {
    shared: Arc<Shared>,
    root: SpanContext,
    decision: Decision,
    is_sampled: bool,
    /// How many reconciles in a row were sampled because of the one before.
    hops: u8,
    clock: Clock,
    /// When the key became ready.
    ready: Instant,
    /// When a worker took the key.
    taken: Instant,
    buffer: Mutex<SpanBuffer>,
}

/// The spans of the requests so far.
#[derive(Default)]
struct SpanBuffer {
    spans: Vec<Span>,
    omitted: usize,
    has_ended: bool,
}

/// Converts instants to times of day. Read once for each trace, so that its spans are consistent when the time of day is set.
#[derive(Clone, Copy)]
struct Clock {
    instant: Instant,
    nanoseconds: u64,
}

/// A reconcile that has ended.
pub(crate) struct EndedReconcile<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) item: &'a ReconcileKey,
    pub(crate) reasons: &'a [Reason],
    /// Failed attempts before this one.
    pub(crate) attempt: u32,
    /// When the call of the guest began, and how long it took.
    pub(crate) started: Instant,
    pub(crate) time: Duration,
    pub(crate) outcome: &'a Result<Outcome, Failure>,
}

/// A trace that is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportedTrace {
    pub(crate) id: TraceId,
    /// The number by which the journal refers to it.
    pub(crate) number: u32,
}

impl ExportedTrace {
    /// Returns the labels of an exemplar.
    pub(crate) fn labels(&self) -> TraceLabels {
        [("trace_id", self.id.to_string())]
    }
}

impl Clock {
    fn at(self, instant: Instant) -> u64 {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match instant.checked_duration_since(self.instant) {
            Some(later) => self.nanoseconds.saturating_add(nanoseconds(later)),
            None => self.nanoseconds.saturating_sub(nanoseconds(self.instant - instant)),
        }
    }
}

impl ReconcileTrace {
    /// Begins the trace of a reconcile. `waited` is how long the key was ready before a worker took it. `hops` is `None` unless the trace
    /// is sampled because of the reconcile that caused this one.
    pub(super) fn begin(shared: &Arc<Shared>, waited: Duration, hops: Option<u8>) -> Self {
        let root = SpanContext { trace: shared.trace_id(), span: shared.span_id() };
        let is_sampled = hops.is_some() || shared.sampling.selects(root.trace);
        let now = shared.source.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let taken = Instant::now();
        Self {
            shared: Arc::clone(shared),
            root,
            decision: Decision::new(is_sampled),
            is_sampled,
            hops: hops.unwrap_or_default(),
            clock: Clock { instant: taken, nanoseconds: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX) },
            ready: taken.checked_sub(waited).unwrap_or(taken),
            taken,
            buffer: Mutex::default(),
        }
    }

    /// Returns the trace's identifier if it was sampled from the start. Whether another one is exported is known at its end.
    pub(crate) fn sampled_id(&self) -> Option<TraceId> {
        self.is_sampled.then_some(self.root.trace)
    }

    /// Returns `traceparent` for what the guest does, if the trace was sampled from the start. Its parent is the reconcile.
    pub(crate) fn sampled_traceparent(&self) -> Option<String> {
        self.is_sampled.then(|| self.root.traceparent_text(true))
    }

    /// Returns the labels of an exemplar, if the trace was sampled from the start.
    pub(crate) fn sampled_labels(&self) -> Option<TraceLabels> {
        self.sampled_id().map(|id| [("trace_id", id.to_string())])
    }

    /// Begins the span of a request that is about to be sent.
    pub(crate) fn request(self: &Arc<Self>, name: &'static str, method: &http::Method) -> OpenSpan {
        OpenSpan {
            trace: Arc::clone(self),
            id: self.shared.span_id(),
            name,
            started: Instant::now(),
            attributes: vec![Attribute::text("http.request.method", method.as_str())],
            // Overwritten by `finish`.
            error: Some("cancelled"),
        }
    }

    /// Ends the trace and decides whether it is exported.
    pub(crate) fn end(
        &self,
        ended: &EndedReconcile<'_>,
        events: Option<&EventRecords>,
    ) -> Option<ExportedTrace> {
        let must_keep = ended.outcome.is_err() || self.shared.sampling.is_slow(ended.time);
        let is_kept = self.decision.settle(must_keep);
        let (requests, omitted) = {
            let mut buffer = self.buffer.lock();
            buffer.has_ended = true;
            (std::mem::take(&mut buffer.spans), buffer.omitted)
        };
        if !is_kept {
            return None;
        }
        self.shared.sender.dropped.by_limit(omitted);
        let mut group = self.own_spans(ended);
        group.extend(requests);
        if let Some(events) = events {
            let event_spans: Vec<_> =
                events.iter().map(|event| self.event_span(ended.plugin, event)).collect();
            group[0].links.extend(event_spans.iter().map(|span| span.context));
            group[0].attributes.push(Attribute::number("pilothouse.events.omitted", events.omitted()));
            group.extend(event_spans);
        }
        if !self.shared.sender.send(group) {
            self.decision.drop_spans();
            return None;
        }
        let number = self.shared.kept.lock().add(self.root.trace);
        Some(ExportedTrace { id: self.root.trace, number })
    }

    /// Returns the root, the time in the queue, and the call of the guest.
    fn own_spans(&self, ended: &EndedReconcile<'_>) -> Vec<Span> {
        let EndedReconcile { plugin, item, reasons, attempt, started, time, outcome } = *ended;
        let reasons: Vec<_> = reasons.iter().map(|reason| reason_name(*reason)).collect();
        let mut attributes = vec![
            Attribute::text("pilothouse.plugin", plugin),
            Attribute::text("pilothouse.watch", &item.watch),
            Attribute::text("pilothouse.key", item.key.as_str()),
            Attribute::text("pilothouse.reasons", &reasons.join(",")),
            Attribute::number("pilothouse.attempt", attempt),
            Attribute::text("pilothouse.outcome", ReconcileOutcome::of(outcome).as_str()),
        ];
        attributes.extend(error_type(outcome).map(|error| Attribute::text("error.type", error)));
        let ended_at = started + time;
        let is_error = outcome.is_err();
        let child = |name, from, to, is_error| Span {
            context: SpanContext { span: self.shared.span_id(), ..self.root },
            parent: Some(self.root.span),
            name,
            kind: SpanKind::Internal,
            start: self.clock.at(from),
            end: self.clock.at(to),
            attributes: Vec::new(),
            links: Vec::new(),
            is_error,
        };
        let root = Span {
            context: self.root,
            parent: None,
            attributes,
            ..child("reconcile", self.ready, ended_at, is_error)
        };
        let queue_wait = child("queue.wait", self.ready, self.taken, false);
        let guest_call = child("guest.call", started, ended_at, is_error);
        vec![root, queue_wait, guest_call]
    }

    /// Returns the span of a change that led to the reconcile. The event of a write belongs to the trace of that write, if that is exported.
    fn event_span(&self, plugin: &str, event: &EventRecord) -> Span {
        let EventRecord { received, queued, watch, change, resource_version, version, _charge: _ } = event;
        let write = self.shared.written.find(*version).filter(|write| write.decision.want());
        let version_number = i64::try_from(*resource_version).unwrap_or(i64::MAX);
        Span {
            context: SpanContext {
                trace: write.as_ref().map_or_else(|| self.shared.trace_id(), |write| write.context.trace),
                span: self.shared.span_id(),
            },
            parent: write.map(|write| write.context.span),
            name: "watch.event",
            kind: SpanKind::Consumer,
            start: self.clock.at(*received),
            end: self.clock.at(*queued),
            attributes: vec![
                Attribute::text("pilothouse.plugin", plugin),
                Attribute::text("pilothouse.watch", watch),
                Attribute::text("pilothouse.change", reason_name(*change)),
                Attribute::number("pilothouse.resource_version", version_number),
            ],
            links: Vec::new(),
            is_error: false,
        }
    }

    fn add(&self, span: Span) {
        let mut buffer = self.buffer.lock();
        if buffer.has_ended {
            drop(buffer);
            // A write continues without its guest, and may be answered after the end of the reconcile.
            if self.decision.is_kept() {
                self.shared.sender.send(vec![span]);
            }
        } else if buffer.spans.len() < MAX_SPANS {
            buffer.spans.push(span);
        } else {
            buffer.omitted += 1;
        }
    }
}

impl Drop for ReconcileTrace {
    fn drop(&mut self) {
        // The key went back into the queue.
        if !self.buffer.get_mut().has_ended {
            self.decision.drop_spans();
        }
    }
}

/// Returns what kind of failure the outcome is. The text of the error may contain anything, so it is in the log only.
fn error_type(outcome: &Result<Outcome, Failure>) -> Option<&'static str> {
    match outcome {
        Ok(_) => None,
        Err(Failure::Fault(fault)) => Some(match fault.kind() {
            FaultKind::Timeout { .. } => "timeout",
            _ => "fault",
        }),
        Err(Failure::Terminal(_)) => Some("terminal_error"),
        Err(_) => Some("error"),
    }
}

/// The span of a request that is under way. It ends when it is dropped.
pub(crate) struct OpenSpan {
    trace: Arc<ReconcileTrace>,
    id: SpanId,
    name: &'static str,
    started: Instant,
    attributes: Vec<Attribute>,
    error: Option<&'static str>,
}

impl OpenSpan {
    fn context(&self) -> SpanContext {
        SpanContext { span: self.id, ..self.trace.root }
    }

    /// Returns the value of the header `traceparent` for the request.
    pub(crate) fn traceparent(&self) -> Option<HeaderValue> {
        self.context().traceparent(self.trace.is_sampled)
    }

    /// Adds an attribute with a text.
    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        self.attributes.push(Attribute::text(name, text));
    }

    /// Adds an attribute with a number.
    pub(crate) fn number(&mut self, name: &'static str, number: impl Into<i64>) {
        self.attributes.push(Attribute::number(name, number));
    }

    /// Remembers that the request has written an object, so that the event of the write leads back to this span. Must be called before the
    /// guest gets the response.
    pub(crate) fn record_written(&self, written: &WriteOutcome) {
        let ReconcileTrace { shared, decision, hops, .. } = &*self.trace;
        let (context, decision, hops) = (self.context(), decision.clone(), *hops);
        shared.written.record(written, WriteSpan { context, decision, hops });
    }

    /// Ends the span with the status of the response, or with `None` and the kind of the error.
    pub(crate) fn finish(mut self, status: Option<u16>, error: Option<&'static str>) {
        self.error = error;
        if let Some(status) = status {
            self.number("http.response.status_code", status);
            if status >= 400 {
                // The semantic conventions of HTTP ask for the status as the type of the error.
                self.text("error.type", &status.to_string());
            }
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let has_error_type = self.attributes.iter().any(|attribute| attribute.name == "error.type");
        if let Some(error) = self.error.filter(|_| !has_error_type) {
            self.attributes.push(Attribute::text("error.type", error));
        }
        let clock = self.trace.clock;
        self.trace.add(Span {
            context: self.context(),
            parent: Some(self.trace.root.span),
            name: self.name,
            kind: SpanKind::Client,
            start: clock.at(self.started),
            end: clock.at(Instant::now()),
            attributes: std::mem::take(&mut self.attributes),
            links: Vec::new(),
            is_error: has_error_type || self.error.is_some(),
        });
    }
}
