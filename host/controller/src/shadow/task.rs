//! Runs a shadow: one task for each running version, which repeats that version's reconciles with the new version, one at a time.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use futures::FutureExt;
use pilothouse_plugin::{
    CallObserver, CompiledPlugin, GuestCall, GuestCallObserver, GuestResult, Host, HostCall, HostRequest,
    InstanceLimits, Request,
};
use tokio::sync::mpsc;

use super::ShadowReport;
use super::script::{Comparison, ShadowScript};
use super::shadow_host::{ShadowHost, WatchNames};
use crate::runtime::queue::Item;

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

/// Observes the reconciles of the running version, to repeat them.
pub(crate) struct ShadowObserver {
    waiting: mpsc::Sender<RunReconcile>,
    /// The size of those that are waiting.
    waiting_bytes: Arc<AtomicUsize>,
    report: Arc<ShadowReport>,
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

impl ShadowObserver {
    /// Creates an observer, and what [`start`] needs of it.
    pub(crate) fn new(report: Arc<ShadowReport>) -> (Self, RunReconciles) {
        let (waiting, reconciles) = mpsc::channel(MAX_WAITING);
        (Self { waiting, waiting_bytes: Arc::default(), report }, RunReconciles(reconciles))
    }
}

impl CallObserver for ShadowObserver {
    fn begin(&self, call: GuestCall) -> Option<Box<dyn GuestCallObserver>> {
        let GuestCall::Reconcile(request) = call else { return None };
        // The shadow could not be instantiated, or its task panicked.
        if self.waiting.is_closed() {
            return None;
        }
        Some(Box::new(CallCollector {
            waiting: self.waiting.clone(),
            waiting_bytes: Arc::clone(&self.waiting_bytes),
            report: Arc::clone(&self.report),
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
    report: Arc<ShadowReport>,
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

impl GuestCallObserver for CallCollector {
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
        let Self { waiting, waiting_bytes, report, request, calls, bytes } = *self;
        let bytes = WaitingBytes::add(waiting_bytes, bytes).filter(|_| is_complete);
        let reconcile = bytes.map(|bytes| RunReconcile { request, calls, result, _bytes: bytes });
        if reconcile.is_none_or(|reconcile| waiting.try_send(reconcile).is_err()) {
            report.record_dropped();
        }
    }
}

/// Starts the task. It ends with the running version, to whose host it has a weak reference: that host has the observer.
pub(crate) fn start(
    shadow: NewVersion,
    running: Weak<dyn Host>,
    reconciles: RunReconciles,
    report: Arc<ShadowReport>,
) {
    tokio::spawn(async move {
        let task = run(shadow, running, reconciles, Arc::clone(&report));
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            report.set_error("its task panicked: the log of the host has the message".to_owned());
        }
    });
}

async fn run(
    shadow: NewVersion,
    running: Weak<dyn Host>,
    mut reconciles: RunReconciles,
    report: Arc<ShadowReport>,
) {
    while let Some(reconcile) = reconciles.0.recv().await {
        let Some(host) = running.upgrade() else { return };
        let item = Item { watch: Arc::clone(&reconcile.request.watch), key: reconcile.request.key.clone() };
        match repeat(&shadow, host, reconcile).await {
            Ok(comparison) => report.record(&item, comparison),
            Err(problem) => {
                report.set_error(problem);
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

    use super::*;
    use crate::{Metrics, PluginName, WallClock};

    fn report() -> Arc<ShadowReport> {
        let name = PluginName::of_file(Path::new("p.wasm")).expect("a name");
        let metrics = Metrics::register(&mut Registry::default()).of(&name);
        let report = ShadowReport::new(None, metrics, WallClock::default());
        report.begin(Path::new("new.wasm"), "ab", "1.0.0");
        Arc::new(report)
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

    /// Lets the observer see a reconcile with these calls.
    fn observe(observer: &ShadowObserver, calls: Vec<HostCall>) {
        let mut observed = observer.begin(GuestCall::Reconcile(request())).expect("it is observed");
        calls.into_iter().for_each(|call| observed.host_call(call));
        observed.end(GuestResult::Reconcile(Ok(Outcome::Done)));
    }

    #[tokio::test]
    async fn a_shadow_that_does_the_same_agrees_and_one_that_traps_differs() {
        for (guest, expected) in [("reads.wat", (2, 0)), ("trap.wat", (0, 2))] {
            let report = report();
            let (observer, reconciles) = ShadowObserver::new(Arc::clone(&report));
            let get = HostCall {
                request: HostRequest::CacheGet {
                    watch: "configmaps".to_owned(),
                    key: ObjectKey::new("default", "a"),
                },
                answer: HostAnswer::Object(None),
            };
            observe(&observer, vec![get]);
            observe(&observer, Vec::new());
            drop(observer);
            let host = stub();
            run(new_version(guest).await, Arc::downgrade(&host), reconciles, Arc::clone(&report)).await;
            let status = report.status().expect("a shadow");
            assert_eq!((status.agreed, status.differed), expected, "{guest}: {status:?}");
        }
    }

    #[tokio::test]
    async fn a_shadow_that_is_behind_drops_reconciles_and_delays_nothing() {
        let report = report();
        let (observer, _reconciles) = ShadowObserver::new(Arc::clone(&report));
        for _ in 0..MAX_WAITING + 3 {
            observe(&observer, Vec::new());
        }
        assert_eq!(report.status().expect("a shadow").dropped, 3);
    }

    #[tokio::test]
    async fn the_memory_of_waiting_reconciles_is_bounded() {
        let report = report();
        let (observer, mut reconciles) = ShadowObserver::new(Arc::clone(&report));
        let create = |size: usize| HostCall {
            request: HostRequest::ClientCreate { manifest: "a".repeat(size), subresource: String::new() },
            answer: HostAnswer::Nothing,
        };
        observe(&observer, vec![create(1), create(MAX_BYTES), create(1)]);
        assert_eq!(report.status().expect("a shadow").dropped, 1);
        assert!(reconciles.0.try_recv().is_err(), "a reconcile that is too large is left out as a whole");
        let half = MAX_BYTES / 2;
        let fitting = MAX_WAITING_BYTES / half;
        for _ in 0..fitting + 2 {
            observe(&observer, vec![create(half)]);
        }
        let dropped = report.status().expect("a shadow").dropped;
        assert!((2..=3).contains(&dropped), "{dropped}");
        while reconciles.0.try_recv().is_ok() {}
        assert_eq!(observer.waiting_bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn nothing_is_observed_for_a_shadow_whose_task_has_ended() {
        let (observer, reconciles) = ShadowObserver::new(report());
        drop(reconciles);
        assert!(observer.begin(GuestCall::Reconcile(request())).is_none());
    }

    #[tokio::test]
    async fn a_shadow_ends_with_the_running_version() {
        let report = report();
        let (observer, reconciles) = ShadowObserver::new(Arc::clone(&report));
        observe(&observer, Vec::new());
        let host = Arc::downgrade(&stub());
        run(new_version("reads.wat").await, host, reconciles, Arc::clone(&report)).await;
        let status = report.status().expect("a shadow");
        assert_eq!((status.agreed, status.differed), (0, 0));
    }
}
