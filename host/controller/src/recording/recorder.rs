//! Collects the calls of reconciles on the guests' threads, and passes each complete reconcile on to the writer.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_plugin::{
    CallRecorder, GuestCall, GuestCallRecorder, GuestResult, HostCall, HostRequest, Reason, Request,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::format::{FORMAT, RecordedCall, RecordedReconcile, RecordingHead, SecretMode, json_line};
use super::metrics::RecordingMetrics;
use super::nesting::has_lost_object;
use super::waiting::{Amount, WaitingReconciles};
use crate::WallClock;
use crate::guest_host::{CallRecorderFactory, ObservedVersion};

/// The maximum number of reconciles that wait for the writer.
const MAX_WAITING: usize = 1_024;
/// The maximum size of all reconciles that wait for the writer, in bytes. It bounds the memory that objects take which are not cached any more.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// The maximum size of one reconcile in memory, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Observes the reconciles of all plugins, to record them.
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    writer: mpsc::Sender<CapturedReconcile>,
    waiting: Arc<Mutex<WaitingReconciles>>,
    secrets: SecretMode,
    clock: WallClock,
    metrics: RecordingMetrics,
}

/// The captured reconciles that wait for the writer.
pub(super) struct CapturedReconciles {
    pub(super) receiver: mpsc::Receiver<CapturedReconcile>,
    /// Those that are in the channel or being written.
    waiting: Arc<Mutex<WaitingReconciles>>,
}

/// A version whose reconciles are recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordedVersion {
    /// The plugin's name.
    pub(super) plugin: String,
    /// The first line of its files. It is made once: a configuration may be large.
    pub(super) head_line: Vec<u8>,
}

/// The calls and the result of a reconcile that has ended.
pub(super) struct CapturedReconcile {
    pub(super) version: Arc<RecordedVersion>,
    request: Arc<Request>,
    began: Timestamp,
    time: Duration,
    calls: Vec<HostCall>,
    result: GuestResult,
    /// Its approximate size in memory.
    bytes: usize,
}

impl Recorder {
    pub(super) fn new(
        secrets: SecretMode,
        clock: WallClock,
        metrics: RecordingMetrics,
    ) -> (Self, CapturedReconciles) {
        let (writer, receiver) = mpsc::channel(MAX_WAITING);
        let limits = Amount { reconciles: MAX_WAITING, bytes: MAX_WAITING_BYTES };
        let waiting = Arc::new(Mutex::new(WaitingReconciles::new(limits)));
        let captured = CapturedReconciles { receiver, waiting: Arc::clone(&waiting) };
        (Self { shared: Arc::new(Shared { writer, waiting, secrets, clock, metrics }) }, captured)
    }
}

impl CallRecorderFactory for Recorder {
    fn recorder_for(&self, version: &ObservedVersion<'_>) -> Option<Arc<dyn CallRecorder>> {
        let head = RecordingHead {
            format: FORMAT.to_owned(),
            plugin: version.plugin.to_string(),
            digest: version.digest.to_owned(),
            config: serde_json::from_str(version.config).unwrap_or(Value::Null),
            secrets: self.shared.secrets,
        };
        // Cannot fail: all keys of the head are text.
        let head_line = json_line(&head).ok()?;
        let version = Arc::new(RecordedVersion { plugin: head.plugin, head_line });
        Some(Arc::new(VersionRecorder { version, shared: Arc::clone(&self.shared) }))
    }
}

impl CapturedReconciles {
    /// Makes room for others in place of these reconciles, which were taken from the channel.
    pub(super) fn forget(&self, taken: &[CapturedReconcile]) {
        let mut waiting = self.waiting.lock();
        taken.iter().for_each(|captured| waiting.remove(&captured.version.plugin, captured.bytes));
    }
}

impl CapturedReconcile {
    /// Returns the reconcile as it is written, with the values of Secrets.
    pub(super) fn to_recorded(&self) -> RecordedReconcile {
        let Request { watch, key, reasons, attempt, extra, .. } = &*self.request;
        RecordedReconcile {
            time: self.began.to_string(),
            microseconds: u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX),
            watch: watch.to_string(),
            namespace: key.namespace().to_owned(),
            name: key.name().to_owned(),
            reasons: reasons.iter().copied().map(Reason::name).map(str::to_owned).collect(),
            attempt: *attempt,
            extra: extra.clone(),
            calls: self.calls.iter().map(RecordedCall::from).collect(),
            result: self.result.to_json(),
        }
    }

    /// Whether `recorded` lacks an object that a call returned, because it nests too deeply.
    pub(super) fn lost_objects(&self, recorded: &RecordedReconcile) -> bool {
        let mut calls = self.calls.iter().zip(&recorded.calls);
        calls.any(|(call, recorded)| has_lost_object(&call.answer, &recorded.answer))
    }
}

/// Observes the guests of one version.
struct VersionRecorder {
    version: Arc<RecordedVersion>,
    shared: Arc<Shared>,
}

impl CallRecorder for VersionRecorder {
    fn begin(&self, call: GuestCall) -> Option<Box<dyn GuestCallRecorder>> {
        let GuestCall::Reconcile(request) = call else { return None };
        Some(Box::new(ReconcileRecorder {
            version: Arc::clone(&self.version),
            shared: Arc::clone(&self.shared),
            request,
            began: self.shared.clock.now(),
            started: Instant::now(),
            calls: Vec::new(),
            bytes: 0,
        }))
    }
}

/// Collects the calls of one reconcile.
struct ReconcileRecorder {
    version: Arc<RecordedVersion>,
    shared: Arc<Shared>,
    request: Arc<Request>,
    began: Timestamp,
    started: Instant,
    calls: Vec<HostCall>,
    bytes: usize,
}

impl GuestCallRecorder for ReconcileRecorder {
    fn host_call(&mut self, call: HostCall) {
        if !is_recorded(&call.request, self.shared.secrets) || self.bytes > MAX_BYTES {
            return;
        }
        self.bytes = self.bytes.saturating_add(call.memory_size());
        self.calls.push(call);
        if self.bytes > MAX_BYTES {
            self.calls = Vec::new();
        }
    }

    fn end(self: Box<Self>, result: GuestResult) {
        let Self { version, shared, request, began, started, calls, bytes } = *self;
        if bytes > MAX_BYTES {
            shared.metrics.dropped_by_size.inc();
            return;
        }
        let time = started.elapsed();
        if !shared.waiting.lock().add(&version.plugin, bytes) {
            shared.metrics.dropped_by_queue.inc();
            return;
        }
        let captured = CapturedReconcile { version, request, began, time, calls, result, bytes };
        // There is room in the channel for all that may wait, so an error means that the writer has ended.
        if let Err(error) = shared.writer.try_send(captured) {
            shared.waiting.lock().remove(&error.into_inner().version.plugin, bytes);
            shared.metrics.dropped_by_queue.inc();
        }
    }
}

/// Whether a call is in the recording. Log lines and samples of metrics are not: a replay does not need them. Random bytes may become
/// secrets.
fn is_recorded(request: &HostRequest, secrets: SecretMode) -> bool {
    match request {
        HostRequest::Log { .. } | HostRequest::Metric { .. } => false,
        HostRequest::Random { .. } => secrets == SecretMode::Plain,
        _ => true,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pilothouse_model::ObjectKey;
    use pilothouse_plugin::{HostAnswer, Outcome};
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;
    use crate::PluginName;

    fn metrics() -> RecordingMetrics {
        RecordingMetrics::register(&mut Registry::default())
    }

    fn request(name: &str) -> Arc<Request> {
        Arc::new(Request {
            watch: "maps".into(),
            key: ObjectKey::new("n", name),
            reasons: vec![Reason::Updated],
            attempt: 1,
            extra: Vec::new(),
            event_at: None,
            host_context: None,
        })
    }

    /// Returns the recorder of a version with this configuration.
    pub(in crate::recording) fn version_with(
        recorder: &Recorder,
        plugin: &str,
        config: &str,
    ) -> Arc<dyn CallRecorder> {
        let plugin = PluginName::of_file(std::path::Path::new(&format!("{plugin}.wasm"))).expect("a name");
        let version = ObservedVersion { plugin: &plugin, digest: "ab", config };
        recorder.recorder_for(&version).expect("a recorder")
    }

    fn version_of(recorder: &Recorder, plugin: &str) -> Arc<dyn CallRecorder> {
        version_with(recorder, plugin, r#"{"a":1}"#)
    }

    fn manifest(size: usize) -> HostCall {
        let request = HostRequest::ClientCreate { manifest: "a".repeat(size), subresource: String::new() };
        HostCall { request, answer: HostAnswer::Object(None) }
    }

    /// Records a reconcile with these calls.
    pub(in crate::recording) fn record(recorder: &Recorder, plugin: &str, name: &str, calls: Vec<HostCall>) {
        record_of(&*version_of(recorder, plugin), name, calls);
    }

    /// Records a reconcile of this version with these calls.
    pub(in crate::recording) fn record_of(
        call_recorder: &dyn CallRecorder,
        name: &str,
        calls: Vec<HostCall>,
    ) {
        let mut reconcile = call_recorder.begin(GuestCall::Reconcile(request(name))).expect("it is recorded");
        calls.into_iter().for_each(|call| reconcile.host_call(call));
        reconcile.end(GuestResult::Reconcile(Ok(Outcome::Done)));
    }

    #[tokio::test]
    async fn a_reconcile_is_recorded_with_its_calls() {
        let (recorder, mut captured) = Recorder::new(SecretMode::Hashed, WallClock::default(), metrics());
        let random =
            HostCall { request: HostRequest::Random { length: 1 }, answer: HostAnswer::Random(vec![1]) };
        let clock =
            HostCall { request: HostRequest::WallClock, answer: HostAnswer::Time(Duration::from_secs(1)) };
        record(&recorder, "p", "a", vec![random, clock]);
        let one = captured.receiver.try_recv().expect("a reconcile");
        let head: RecordingHead = serde_json::from_slice(&one.version.head_line).expect("a head");
        assert_eq!(head.config, json!({"a": 1}));
        let recorded = one.to_recorded();
        assert_eq!((recorded.key().as_str(), recorded.attempt, &recorded.result), ("n/a", 1, &json!("done")));
        let functions: Vec<_> = recorded.calls.iter().map(|call| call.function.as_str()).collect();
        assert_eq!(functions, ["wall-clock"], "random bytes may become secrets");
    }

    #[tokio::test]
    async fn other_calls_and_abandoned_reconciles_are_not_recorded() {
        let (recorder, mut captured) = Recorder::new(SecretMode::Plain, WallClock::default(), metrics());
        let call_recorder = version_of(&recorder, "p");
        assert!(call_recorder.begin(GuestCall::Instantiate).is_none());
        drop(call_recorder.begin(GuestCall::Reconcile(request("a"))));
        assert!(captured.receiver.try_recv().is_err());
    }

    #[tokio::test]
    async fn too_much_is_dropped_as_a_whole_and_counted() {
        let (recorder, mut captured) = Recorder::new(SecretMode::Plain, WallClock::default(), metrics());
        record(&recorder, "p", "a", vec![manifest(1), manifest(MAX_BYTES), manifest(1)]);
        assert!(captured.receiver.try_recv().is_err());
        assert_eq!(recorder.shared.metrics.dropped_by_size.get(), 1);
        for _ in 0..=MAX_WAITING {
            record(&recorder, "p", "a", Vec::new());
        }
        assert_eq!(recorder.shared.metrics.dropped_by_queue.get(), MAX_WAITING as u64 / 2 + 1);
    }

    #[tokio::test]
    async fn a_plugin_with_many_reconciles_leaves_room_for_the_others() {
        let (recorder, mut captured) = Recorder::new(SecretMode::Plain, WallClock::default(), metrics());
        for _ in 0..10 * MAX_WAITING {
            record(&recorder, "busy", "a", Vec::new());
        }
        for _ in 0..100 {
            record(&recorder, "quiet", "a", Vec::new());
        }
        let mut taken = Vec::new();
        while let Ok(one) = captured.receiver.try_recv() {
            taken.push(one);
        }
        let quiet = taken.iter().filter(|one| one.version.plugin == "quiet").count();
        assert_eq!((quiet, taken.len()), (100, 100 + MAX_WAITING / 2));
        captured.forget(&taken);
        assert_eq!(recorder.shared.waiting.lock().total(), Amount::default());
    }

    #[tokio::test]
    async fn the_memory_of_waiting_reconciles_is_bounded() {
        let (recorder, mut captured) = Recorder::new(SecretMode::Plain, WallClock::default(), metrics());
        let half = MAX_BYTES / 2;
        for plugin in 0..2 * MAX_WAITING_BYTES / half {
            record(&recorder, &format!("p{plugin}"), "a", vec![manifest(half)]);
        }
        let waiting = recorder.shared.waiting.lock().total().bytes;
        assert!((MAX_WAITING_BYTES..MAX_WAITING_BYTES + MAX_BYTES).contains(&waiting), "{waiting}");
        assert!(recorder.shared.metrics.dropped_by_queue.get() > 0);
        let mut taken = Vec::new();
        while let Ok(one) = captured.receiver.try_recv() {
            taken.push(one);
        }
        captured.forget(&taken);
        assert_eq!(recorder.shared.waiting.lock().total(), Amount::default());
    }
}
