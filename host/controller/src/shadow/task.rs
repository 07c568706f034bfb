//! Runs a shadow: one task for each running version, which repeats that version's reconciles with the new version, one at a time.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use futures::FutureExt;
use pilothouse_plugin::{
    CallRecorder, CompiledPlugin, GuestCall, GuestCallRecorder, GuestResult, Host, HostCall, HostRequest,
    InstanceLimits, Request,
};
use tokio::sync::mpsc;

use super::ShadowRecord;
use super::script::{Comparison, ShadowScript};
use super::shadow_host::ShadowHost;
use super::watch_names::WatchNames;
use crate::runtime::queue::ReconcileKey;

/// The maximum number of reconciles that wait for the shadow.
const MAX_WAITING: usize = 64;
/// The maximum number of calls in a reconcile that is compared.
const MAX_CALLS: usize = 10_000;
/// The maximum size of a reconcile in memory, in bytes. The running version chooses the texts of its calls.
const MAX_BYTES: usize = 16 << 20;
/// The maximum size of all reconciles that wait for the shadow, in bytes. It bounds the memory that objects take which are not cached any more.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// The code of a shadow.
pub(crate) struct NewVersion {
    pub(crate) code: CompiledPlugin,
    pub(crate) limits: InstanceLimits,
    pub(crate) watches: Arc<WatchNames>,
}

/// Records the reconciles of the running version, so that the shadow can repeat them.
pub(crate) struct ShadowRecorder {
    waiting: mpsc::Sender<RunReconcile>,
    /// The size of those that are waiting.
    waiting_bytes: Arc<AtomicUsize>,
    record: Arc<ShadowRecord>,
}

/// The reconciles that the task is to repeat.
pub(crate) struct RunReconciles(mpsc::Receiver<RunReconcile>);

/// A reconcile of the running version.
struct RunReconcile {
    request: Arc<Request>,
    calls: Vec<HostCall>,
    result: GuestResult,
    /// Its share of what all waiting reconciles take.
    _bytes: WaitingBytes,
}

/// A number of bytes in the sum of all waiting reconciles, for as long as this exists.
struct WaitingBytes {
    sum: Arc<AtomicUsize>,
    bytes: usize,
}

impl WaitingBytes {
    /// Adds the bytes; `None` if the sum is too large already.
    fn add(sum: Arc<AtomicUsize>, bytes: usize) -> Option<Self> {
        let before = sum.fetch_add(bytes, Ordering::Relaxed);
        let added = Self { sum, bytes };
        (before <= MAX_WAITING_BYTES).then_some(added)
    }
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl ShadowRecorder {
    /// Creates a recorder, and what [`start`] needs of it.
    pub(crate) fn new(record: Arc<ShadowRecord>) -> (Self, RunReconciles) {
        let (waiting, reconciles) = mpsc::channel(MAX_WAITING);
        (Self { waiting, waiting_bytes: Arc::default(), record }, RunReconciles(reconciles))
    }
}

impl CallRecorder for ShadowRecorder {
    fn begin(&self, call: GuestCall) -> Option<Box<dyn GuestCallRecorder>> {
        let GuestCall::Reconcile(request) = call else { return None };
        // The shadow could not be instantiated, or its task panicked.
        if self.waiting.is_closed() {
            return None;
        }
        Some(Box::new(CallCollector {
            waiting: self.waiting.clone(),
            waiting_bytes: Arc::clone(&self.waiting_bytes),
            record: Arc::clone(&self.record),
            request,
            calls: Vec::new(),
            bytes: 0,
        }))
    }
}

/// Collects the calls of one reconcile of the running version.
struct CallCollector {
    waiting: mpsc::Sender<RunReconcile>,
    waiting_bytes: Arc<AtomicUsize>,
    record: Arc<ShadowRecord>,
    request: Arc<Request>,
    calls: Vec<HostCall>,
    /// The size of the calls in memory, also of those that were dropped because they are too large.
    bytes: usize,
}

impl CallCollector {
    fn is_complete(&self) -> bool {
        self.bytes <= MAX_BYTES && self.calls.len() <= MAX_CALLS
    }
}

impl GuestCallRecorder for CallCollector {
    fn host_call(&mut self, call: HostCall) {
        let is_needed = !matches!(call.request, HostRequest::Log { .. } | HostRequest::Metric { .. });
        if !is_needed || !self.is_complete() {
            return;
        }
        self.bytes = self.bytes.saturating_add(call.memory_size());
        self.calls.push(call);
        if self.bytes > MAX_BYTES {
            self.calls = Vec::new();
        }
    }

    fn end(self: Box<Self>, result: GuestResult) {
        let is_complete = self.is_complete();
        let Self { waiting, waiting_bytes, record, request, calls, bytes } = *self;
        let bytes = WaitingBytes::add(waiting_bytes, bytes).filter(|_| is_complete);
        let reconcile = bytes.map(|bytes| RunReconcile { request, calls, result, _bytes: bytes });
        if reconcile.is_none_or(|reconcile| waiting.try_send(reconcile).is_err()) {
            record.record_dropped();
        }
    }
}

/// Starts the task. It ends with the running version, to whose host it has a weak reference: that host has the recorder.
pub(crate) fn start(
    shadow: NewVersion,
    running: Weak<dyn Host>,
    reconciles: RunReconciles,
    record: Arc<ShadowRecord>,
) {
    tokio::spawn(async move {
        let task = run(shadow, running, reconciles, Arc::clone(&record));
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            record.set_error("its task panicked: the log of the host has the message".to_owned());
        }
    });
}

async fn run(
    shadow: NewVersion,
    running: Weak<dyn Host>,
    mut reconciles: RunReconciles,
    record: Arc<ShadowRecord>,
) {
    while let Some(reconcile) = reconciles.0.recv().await {
        let Some(host) = running.upgrade() else { return };
        let item =
            ReconcileKey { watch: Arc::clone(&reconcile.request.watch), key: reconcile.request.key.clone() };
        match repeat(&shadow, host, reconcile).await {
            Ok(comparison) => record.record(&item, comparison),
            Err(problem) => {
                record.set_error(problem);
                return;
            }
        }
    }
}

/// Repeats a reconcile. Errors if the new version cannot be instantiated.
async fn repeat(
    shadow: &NewVersion,
    running: Arc<dyn Host>,
    reconcile: RunReconcile,
) -> Result<Comparison, String> {
    let RunReconcile { request, calls, result, _bytes } = reconcile;
    let host = Arc::new(ShadowHost::new(running, Arc::clone(&shadow.watches)));
    let created = shadow.code.instantiate(Arc::<ShadowHost>::clone(&host), &shadow.limits).await;
    let mut instance = created.map_err(|fault| format!("the shadow cannot be instantiated: {fault}"))?;
    host.begin(ShadowScript::new(calls));
    // Without the context of the running version: its trace and its event are that version's.
    let request = Request { event_at: None, host_context: None, ..(*request).clone() };
    let found = GuestResult::Reconcile(instance.reconcile(request).await);
    Ok(host.end().map_or(Comparison::Skipped, |script| script.finish(&result, &found)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pilothouse_model::{Object, ObjectKey};
    use pilothouse_plugin::{Engine, EngineOptions, HostAnswer, Outcome, StubHost};
    use prometheus_client::registry::Registry;

    use super::super::ShadowReport;
    use super::*;
    use crate::{Metrics, PluginName, WallClock};

    /// Returns a report, and the record that it shows.
    fn report() -> (ShadowReport, Arc<ShadowRecord>) {
        let name = PluginName::of_file(Path::new("p.wasm")).expect("a name");
        let metrics = Metrics::register(&mut Registry::default()).for_plugin(&name);
        let report = ShadowReport::new(None, metrics, WallClock::default());
        let record = report.record_of(Path::new("new.wasm"), "ab", "1.0.0");
        report.show(Some(&record));
        (report, record)
    }

    async fn new_version(guest: &str) -> NewVersion {
        let path = format!("{}/../plugin/tests/guests/{guest}", env!("CARGO_MANIFEST_DIR"));
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let code = engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin");
        let watches = Arc::new(WatchNames::for_test("configmaps", "secrets"));
        NewVersion { code, limits: InstanceLimits::default(), watches }
    }

    fn request() -> Arc<Request> {
        Arc::new(Request {
            watch: "configmaps".into(),
            key: ObjectKey::new("default", "a"),
            reasons: Vec::new(),
            attempt: 0,
            extra: Vec::new(),
            event_at: None,
            host_context: None,
        })
    }

    fn stub() -> Arc<dyn Host> {
        let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}"#;
        Arc::new(StubHost::new("{}").with_object(Object::from_json(map).expect("an object")))
    }

    /// Lets the recorder see a reconcile with these calls.
    fn observe(recorder: &ShadowRecorder, calls: Vec<HostCall>) {
        let mut observed = recorder.begin(GuestCall::Reconcile(request())).expect("it is observed");
        calls.into_iter().for_each(|call| observed.host_call(call));
        observed.end(GuestResult::Reconcile(Ok(Outcome::Done)));
    }

    #[tokio::test]
    async fn a_shadow_that_does_the_same_agrees_and_one_that_traps_differs() {
        for (guest, expected) in [("reads.wat", (2, 0)), ("trap.wat", (0, 2))] {
            let (report, record) = report();
            let (recorder, reconciles) = ShadowRecorder::new(Arc::clone(&record));
            let get = HostCall {
                request: HostRequest::CacheGet {
                    watch: "configmaps".to_owned(),
                    key: ObjectKey::new("default", "a"),
                },
                answer: HostAnswer::Object(None),
            };
            observe(&recorder, vec![get]);
            observe(&recorder, Vec::new());
            drop(recorder);
            let host = stub();
            run(new_version(guest).await, Arc::downgrade(&host), reconciles, Arc::clone(&record)).await;
            let status = report.status().expect("a shadow");
            assert_eq!((status.agreed, status.differed), expected, "{guest}: {status:?}");
        }
    }

    #[tokio::test]
    async fn a_shadow_that_is_behind_drops_reconciles_and_delays_nothing() {
        let (report, record) = report();
        let (recorder, _reconciles) = ShadowRecorder::new(Arc::clone(&record));
        for _ in 0..MAX_WAITING + 3 {
            observe(&recorder, Vec::new());
        }
        assert_eq!(report.status().expect("a shadow").dropped, 3);
    }

    #[tokio::test]
    async fn the_memory_of_waiting_reconciles_is_bounded() {
        let (report, record) = report();
        let (recorder, mut reconciles) = ShadowRecorder::new(Arc::clone(&record));
        let create = |size: usize| HostCall {
            request: HostRequest::ClientCreate { manifest: "a".repeat(size), subresource: String::new() },
            answer: HostAnswer::Nothing,
        };
        observe(&recorder, vec![create(1), create(MAX_BYTES), create(1)]);
        assert_eq!(report.status().expect("a shadow").dropped, 1);
        assert!(reconciles.0.try_recv().is_err(), "a reconcile that is too large is left out as a whole");
        let half = MAX_BYTES / 2;
        let fitting = MAX_WAITING_BYTES / half;
        for _ in 0..fitting + 2 {
            observe(&recorder, vec![create(half)]);
        }
        let dropped = report.status().expect("a shadow").dropped;
        assert!((2..=3).contains(&dropped), "{dropped}");
        while reconciles.0.try_recv().is_ok() {}
        assert_eq!(recorder.waiting_bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn nothing_is_observed_for_a_shadow_whose_task_has_ended() {
        let (recorder, reconciles) = ShadowRecorder::new(report().1);
        drop(reconciles);
        assert!(recorder.begin(GuestCall::Reconcile(request())).is_none());
    }

    #[tokio::test]
    async fn a_shadow_ends_with_the_running_version() {
        let (report, record) = report();
        let (recorder, reconciles) = ShadowRecorder::new(Arc::clone(&record));
        observe(&recorder, Vec::new());
        let host = Arc::downgrade(&stub());
        run(new_version("reads.wat").await, host, reconciles, Arc::clone(&record)).await;
        let status = report.status().expect("a shadow");
        assert_eq!((status.agreed, status.differed), (0, 0));
    }
}
