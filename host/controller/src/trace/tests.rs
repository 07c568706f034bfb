//! Traces with known identifiers and times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use pilothouse_model::{Object, ObjectKey, ResourceType};
use pilothouse_plugin::{Failure, Outcome};
use prometheus_client::registry::Registry;

use super::queue::MAX_QUEUED;
use super::reconcile::MAX_SPANS;
use super::*;
use crate::client::WriteOutcome;
use crate::runtime::queue::ReconcileKey;

/// The time of day at the start of a test, in seconds since the Unix epoch.
const START: u64 = 1_000_000;

/// Counts identifiers from 1. The time of day follows tokio's clock.
struct CountedIds {
    last: AtomicU64,
    began: Instant,
}

impl TraceSource for CountedIds {
    fn fill(&self, bytes: &mut [u8]) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let at = bytes.len() - 8;
        bytes[at..].copy_from_slice(&number.to_be_bytes());
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(START) + self.began.elapsed()
    }
}

struct Fixture {
    tracer: Tracer,
    receiver: SpanReceiver,
    dropped: DroppedSpans,
}

fn fixture(ratio: f64) -> Fixture {
    let dropped = DroppedSpans::register(&mut Registry::default());
    let options = TraceOptions { ratio, slow: Duration::from_secs(1) };
    let source = CountedIds { last: AtomicU64::new(0), began: Instant::now() };
    let (tracer, receiver) = Tracer::with_source(&options, dropped.clone(), Box::new(source));
    Fixture { tracer, receiver, dropped }
}

fn object(version: &str) -> Object {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"{version}"}}}}"#
    );
    Object::from_json(text).expect("an object")
}

fn written(version: &str) -> WriteOutcome {
    let resource = ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    };
    WriteOutcome::Object(resource, object(version))
}

impl Fixture {
    /// Returns the record of the event that carries a version.
    fn event(&self, version: &str) -> EventRecords {
        let notification = Notification::Added { object: object(version), initial: false };
        let (watch, memory) = ("maps".into(), HostMemory::default());
        let event = self.tracer.event(&notification, &watch, Reason::Created, Instant::now(), &memory);
        *event.expect("a record")
    }

    fn begin(&self, events: Option<&EventRecords>) -> Arc<ReconcileTrace> {
        self.tracer.begin(Duration::from_millis(5), events).expect("a trace")
    }

    /// Returns the spans of the next trace that is exported.
    fn exported(&mut self) -> Option<Vec<Span>> {
        self.receiver.try_recv()
    }
}

/// Ends a reconcile of the plugin.
fn end(
    trace: &ReconcileTrace,
    plugin: &str,
    time: Duration,
    outcome: &Result<Outcome, Failure>,
    events: Option<&EventRecords>,
) -> Option<ExportedTrace> {
    let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") };
    let (reasons, started) = ([Reason::Created], Instant::now());
    trace.end(
        &EndedReconcile { plugin, item: &item, reasons: &reasons, attempt: 0, started, time, outcome },
        events,
    )
}

const DONE: Result<Outcome, Failure> = Ok(Outcome::Done);
const SHORT: Duration = Duration::from_millis(2);

fn find<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no {name} in {spans:?}"));
    assert!(found.next().is_none(), "one {name} in {spans:?}");
    span
}

fn text<'a>(span: &'a Span, name: &str) -> Option<&'a str> {
    let attribute = span.attributes.iter().find(|attribute| attribute.name == name)?;
    match &attribute.value {
        AttributeValue::Text(text) => Some(text),
        AttributeValue::Number(_) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn without_tracing_nothing_is_recorded() {
    let tracer = Tracer::default();
    let notification = Notification::Added { object: object("1"), initial: false };
    let memory = HostMemory::default();
    let event = tracer.event(&notification, &"maps".into(), Reason::Created, Instant::now(), &memory);
    assert!(event.is_none() && memory.used() == 0);
    assert!(tracer.begin(SHORT, None).is_none() && tracer.exported(1).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_trace_has_the_queue_the_call_and_the_requests_as_children_of_the_reconcile() {
    let mut fixture = fixture(1.0);
    tokio::time::advance(Duration::from_millis(5)).await;
    let trace = fixture.begin(None);
    assert_eq!(trace.sampled_id(), Some(TraceId(1_u128.to_be_bytes())));
    let request = trace.request("k8s.write", &http::Method::PUT);
    let header = request.traceparent().expect("a header");
    assert_eq!(header, "00-00000000000000000000000000000001-0000000000000003-01");
    tokio::time::advance(SHORT).await;
    request.finish(Some(409), None);
    let exported = end(&trace, "writer", SHORT, &DONE, None).expect("an exported trace");
    assert_eq!(fixture.tracer.exported(exported.number), Some(exported.id));
    let spans = fixture.exported().expect("a trace");
    let root = find(&spans, "reconcile");
    assert_eq!((root.parent, root.is_error, spans.len()), (None, false, 4));
    assert_eq!(text(root, "pilothouse.key"), Some("n/a"));
    assert_eq!(text(root, "pilothouse.outcome"), Some("done"));
    for name in ["queue.wait", "guest.call", "k8s.write"] {
        let child = find(&spans, name);
        assert_eq!((child.parent, child.context.trace), (Some(root.context.span), exported.id), "{name}");
    }
    let write = find(&spans, "k8s.write");
    assert_eq!((text(write, "error.type"), write.is_error), (Some("409"), true));
    // Times in milliseconds since the start.
    let times = |span: &Span| [span.start, span.end].map(|time| (time - START * 1_000_000_000) / 1_000_000);
    assert_eq!(times(find(&spans, "queue.wait")), [0, 5]);
    assert_eq!(times(write), [5, 7]);
    assert_eq!(times(root), [0, 9]);
}

#[tokio::test(start_paused = true)]
async fn a_trace_leads_from_a_write_to_the_reconcile_that_its_event_causes() {
    let mut fixture = fixture(1.0);
    let first = fixture.begin(None);
    let write = first.request("k8s.write", &http::Method::POST);
    write.record_written(&written("7"));
    write.finish(Some(201), None);
    end(&first, "writer", SHORT, &DONE, None).expect("an exported trace");
    let first_spans = fixture.exported().expect("a trace");
    let mut events = fixture.event("7");
    events.merge(fixture.event("8"));
    let second = fixture.begin(Some(&events));
    end(&second, "reader", SHORT, &DONE, Some(&events)).expect("an exported trace");
    let spans = fixture.exported().expect("a trace");
    let (root, write) = (find(&spans, "reconcile"), find(&first_spans, "k8s.write"));
    assert_ne!(root.context.trace, write.context.trace, "each reconcile is a trace");
    let [caused, other] = spans.iter().filter(|span| span.name == "watch.event").collect::<Vec<_>>()[..]
    else {
        panic!("two events: {spans:?}")
    };
    assert_eq!(caused.context.trace, write.context.trace);
    assert_eq!((caused.parent, other.parent), (Some(write.context.span), None));
    assert_eq!(root.links, [caused.context, other.context]);
    assert_eq!(text(caused, "pilothouse.plugin"), Some("reader"));
}

#[tokio::test(start_paused = true)]
async fn failed_and_slow_reconciles_are_exported_whatever_the_ratio_is() {
    let mut fixture = fixture(0.0);
    let failed = Err(Failure::Retry("secret".to_owned()));
    for (time, outcome, is_exported) in
        [(SHORT, &DONE, false), (Duration::from_secs(1), &DONE, true), (SHORT, &failed, true)]
    {
        let trace = fixture.begin(None);
        assert_eq!(trace.sampled_id(), None);
        assert_eq!(end(&trace, "p", time, outcome, None).is_some(), is_exported, "{time:?} {outcome:?}");
        let spans = fixture.exported();
        assert_eq!(spans.is_some(), is_exported);
        let text = format!("{spans:?}");
        assert!(!text.contains("secret"), "the text of an error is in the log only: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_reconcile_keeps_the_open_trace_of_the_write_that_caused_it() {
    let mut fixture = fixture(0.0);
    let first = fixture.begin(None);
    first.request("k8s.write", &http::Method::PUT).record_written(&written("7"));
    let events = fixture.event("7");
    let second = fixture.begin(Some(&events));
    assert_eq!(second.sampled_id(), None);
    let failed = Err(Failure::Terminal(String::new()));
    end(&second, "reader", SHORT, &failed, Some(&events)).expect("an exported trace");
    end(&first, "writer", SHORT, &DONE, None).expect("exported, because its event refers to it");
    let (second, first) = (fixture.exported().expect("a trace"), fixture.exported().expect("a trace"));
    assert_eq!(find(&second, "watch.event").parent, Some(find(&first, "k8s.write").context.span));
}

#[tokio::test(start_paused = true)]
async fn an_event_does_not_refer_to_a_trace_that_was_dropped() {
    let mut fixture = fixture(0.0);
    let first = fixture.begin(None);
    first.request("k8s.write", &http::Method::PUT).record_written(&written("7"));
    // The key goes back into the queue.
    drop(first);
    let events = fixture.event("7");
    let second = fixture.begin(Some(&events));
    end(&second, "p", Duration::from_secs(2), &DONE, Some(&events)).expect("an exported trace");
    assert_eq!(find(&fixture.exported().expect("a trace"), "watch.event").parent, None);
}

#[tokio::test(start_paused = true)]
async fn a_sampled_reconcile_samples_those_that_its_writes_cause_for_a_limited_number_of_hops() {
    let fixture = fixture(0.0);
    let shared = fixture.tracer.0.as_ref().expect("tracing");
    let mut trace = Arc::new(ReconcileTrace::begin(shared, SHORT, Some(0)));
    let mut hops = 0;
    while trace.sampled_id().is_some() {
        hops += 1;
        let version = hops.to_string();
        trace.request("k8s.write", &http::Method::PUT).record_written(&written(&version));
        trace = fixture.begin(Some(&fixture.event(&version)));
    }
    assert_eq!(hops, u32::from(MAX_HOPS) + 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_cut_off_and_one_that_ends_late_are_in_the_trace() {
    let mut fixture = fixture(1.0);
    let trace = fixture.begin(None);
    drop(trace.request("k8s.read", &http::Method::GET));
    let late = trace.request("k8s.write", &http::Method::PUT);
    end(&trace, "p", SHORT, &DONE, None).expect("an exported trace");
    let spans = fixture.exported().expect("a trace");
    let read = find(&spans, "k8s.read");
    assert_eq!((text(read, "error.type"), read.is_error), (Some("cancelled"), true));
    late.finish(Some(200), None);
    let late = fixture.exported().expect("a span");
    assert_eq!(find(&late, "k8s.write").parent, Some(find(&spans, "reconcile").context.span));
}

#[tokio::test(start_paused = true)]
async fn spans_beyond_the_limits_are_dropped_and_counted() {
    let mut fixture = fixture(1.0);
    let trace = fixture.begin(None);
    for _ in 0..MAX_SPANS + 3 {
        trace.request("k8s.read", &http::Method::GET).finish(Some(200), None);
    }
    end(&trace, "p", SHORT, &DONE, None).expect("an exported trace");
    assert_eq!(fixture.exported().expect("a trace").len(), MAX_SPANS + 3, "with three of its own");
    assert_eq!(fixture.dropped.counts(), [0, 0, 3]);
    // Nothing takes spans out of the queue.
    let own = 3;
    let fitting = MAX_QUEUED / own;
    let is_exported = |fixture: &Fixture| end(&fixture.begin(None), "p", SHORT, &DONE, None).is_some();
    assert!((0..fitting).all(|_| is_exported(&fixture)));
    assert!((0..10).all(|_| !is_exported(&fixture)), "a trace is exported as a whole or not at all");
    assert_eq!(fixture.dropped.counts(), [10 * own as u64, 0, 3]);
    assert!(fixture.exported().is_some() && is_exported(&fixture), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn without_tracing_events_and_reconciles_allocate_nothing() {
    let notification = Notification::Added { object: object("7"), initial: false };
    let (watch, memory, received) = ("maps".into(), HostMemory::default(), Instant::now());
    let allocations = |tracer: &Tracer| {
        let counted = allocation_counter::measure(|| {
            let event = tracer.event(&notification, &watch, Reason::Created, received, &memory);
            let trace = tracer.begin(Duration::ZERO, event.as_deref());
            let labels = trace.as_ref().and_then(|trace| trace.sampled_labels());
            let traceparent = trace.as_ref().and_then(|trace| trace.sampled_traceparent());
            drop((event, trace, labels, traceparent, tracer.exported(1)));
        });
        counted.count_total
    };
    assert_eq!(allocations(&Tracer::default()), 0);
    assert!(allocations(&fixture(0.0).tracer) > 0);
}
