//! A worker: takes keys from the plugin's queue and reconciles them, one at a time, with the running version or, if the key is among those of
//! its canary, with that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pilothouse_plugin::{Failure, FaultKind, HostContext, LogLevel, Outcome, Reason, Request};
use tokio::sync::watch;
use tokio::time::Instant;

use super::running::RunningVersion;
use super::work_gate::WorkGate;
use super::workers::WorkerSlot;
use crate::client::in_flight::HeldItem;
use crate::explain::journal::{ReconcileOutcome, ReconcileRecord, reason_bits};
use crate::guest_host::GuestServices;
use crate::lifecycle::{Activity, RecentErrors};
use crate::load::version::Version;
use crate::runtime::hot_loop;
use crate::runtime::queue::Item;
use crate::trace::{EndedReconcile, ExportedTrace, ReconcileTrace, TRACEPARENT};

/// How long a key waits at least whose version may not be called, while the other version works. The version may be suspended, or another key
/// may be the one with which it is probed.
const BLOCKED_KEY_DELAY: Duration = Duration::from_secs(1);

/// Reconciles keys until the queue is shut down or the worker is surplus. A panic restarts the worker. `gate` is that of the running versions.
pub(super) async fn work(
    slot: WorkerSlot,
    running: RunningVersion,
    gate: watch::Receiver<WorkGate>,
    guest: GuestServices,
) {
    let supervisor = guest.clone();
    let mut worker = Worker { slot, running, gate, guest };
    supervisor.supervise("worker", &mut worker, |worker| Box::pin(worker.run())).await;
}

struct Worker {
    slot: WorkerSlot,
    running: RunningVersion,
    gate: watch::Receiver<WorkGate>,
    guest: GuestServices,
}

impl Worker {
    async fn run(&mut self) {
        let Self { slot, running, gate, guest } = self;
        let guest = &*guest;
        let mut current_gate = gate.borrow_and_update().clone();
        while !slot.is_surplus() {
            // An error means that the plugin's task is gone, and that there will be no other gate.
            if gate.has_changed().is_ok_and(|changed| changed) {
                current_gate = gate.borrow_and_update().clone();
            }
            // While the plugin backs off or lacks a permission, its keys stay in the queue.
            tokio::select! {
                biased;
                () = current_gate.wait_until_allowed() => {}
                // Another version may be able to work, such as a canary that has begun.
                Ok(()) = gate.changed() => {
                    current_gate = gate.borrow_and_update().clone();
                    continue;
                }
                () = slot.wait_until_surplus() => return,
            }
            let next = tokio::select! {
                biased;
                next = guest.queue.get() => next,
                () = current_gate.wait_until_blocked() => continue,
                () = slot.wait_until_surplus() => return,
            };
            let Some((item, reasons)) = next else { return };
            let mut held = ReconcileAttempt::new(guest, item, reasons);
            let request = Arc::clone(&held.request);
            if let Some(delay) = guest.hot_loops.begin(held.item.key(), &request.reasons) {
                guest.queue.requeue_taken_after(&mut held.item, &request.reasons, delay);
                held.is_handled = true;
                continue;
            }
            loop {
                // The read lock is held during the reconcile, so that a swap waits for its end. No other worker gets the key meanwhile.
                let running = running.read().await;
                let Some(chosen) = running.of(&request.key) else { return };
                let version = chosen.version;
                if !version.views.is_target(&request.watch) {
                    held.requeue_renamed(version);
                    break;
                }
                // The plugin has just begun to back off, or lost a permission: the key goes back into the queue.
                let Some(pass) = version.health.try_acquire() else {
                    if running.canary.is_some() {
                        // The worker goes on with the keys of the other version, so this one must not come back at once.
                        let reasons = request.reasons.as_slice();
                        guest.queue.requeue_blocked(&mut held.item, reasons, blocked_key_delay(version));
                        held.is_handled = true;
                    }
                    break;
                };
                let active = ActiveReconcile::begin(guest);
                guest.panics.inject_test_panic("worker");
                let outcome = reconcile(version, &seen_by_guest(guest, &request)).await;
                drop(active);
                if let Some(reconciled) = outcome {
                    match &reconciled.outcome {
                        Err(Failure::Fault(fault)) => {
                            pass.failed(Activity::Reconcile, Some(held.item.key()), fault);
                        }
                        _ => pass.succeeded(Activity::Reconcile),
                    }
                    chosen.count(guest, reconciled.outcome.is_err());
                    let errors = chosen.recent_errors(guest);
                    let exported = held.end_trace(&reconciled);
                    record_outcome(guest, errors, &mut held.item, &request.reasons, reconciled, exported);
                    held.is_handled = true;
                    if let Some(found) = guest.hot_loops.end(held.item.key()) {
                        hot_loop::report(guest, held.item.key(), &found);
                    }
                    break;
                }
                drop(pass);
                // The observer has to catch up first. It needs a read lock for that, behind which a swap may wait: so wait without one.
                let mut caught_up = version.dedicated_instance.subscribe_caught_up();
                drop(running);
                // An error means that the version was replaced: try the next one.
                let _ = caught_up.wait_for(|caught_up| *caught_up).await;
            }
        }
    }
}

/// Returns how long a key waits whose version may not be called: until the end of its backoff, if it has one.
fn blocked_key_delay(version: &Version) -> Duration {
    version.health.blocked_for().unwrap_or_default().max(BLOCKED_KEY_DELAY)
}

/// A key that a worker has taken from the queue. A worker may be aborted at any `await`: a key that is not handled by then goes back into
/// the queue.
struct ReconcileAttempt<'a> {
    guest: &'a GuestServices,
    item: HeldItem,
    request: Arc<Request>,
    /// `None` without tracing.
    trace: Option<Arc<ReconcileTrace>>,
    is_handled: bool,
}

impl<'a> ReconcileAttempt<'a> {
    fn new(guest: &'a GuestServices, item: HeldItem, reasons: Vec<Reason>) -> Self {
        let Item { watch, key } = item.key().clone();
        let (attempt, event_at) = (item.attempts(), item.event_at());
        let trace = guest.tracer.begin(item.ready_for(), item.events());
        let labels = trace.as_ref().and_then(|trace| trace.sampled_labels());
        guest.metrics.queue_latency.observe(item.ready_for().as_secs_f64(), labels, None);
        let host_context = trace.clone().map(HostContext::new);
        let traceparent = trace.as_ref().and_then(|trace| trace.sampled_traceparent());
        let extra = traceparent.map(|value| (TRACEPARENT.to_owned(), value)).into_iter().collect();
        let request = Request { watch, key, reasons, attempt, extra, event_at, host_context };
        Self { guest, item, request: Arc::new(request), trace, is_handled: false }
    }
}

impl ReconcileAttempt<'_> {
    /// Ends the trace, if there is one. Returns it if it is exported.
    fn end_trace(&mut self, reconciled: &Reconciled) -> Option<ExportedTrace> {
        let trace = self.trace.as_ref()?;
        let events = self.item.take_events();
        let ended = EndedReconcile {
            plugin: self.guest.name.as_str(),
            item: self.item.key(),
            reasons: &self.request.reasons,
            attempt: self.item.attempts(),
            started: reconciled.started,
            time: reconciled.time,
            outcome: &reconciled.outcome,
        };
        trace.end(&ended, events.as_deref())
    }

    /// Queues the key under the new names of its watch, or drops it if no target watch of its resource is left.
    fn requeue_renamed(&mut self, version: &Version) {
        let Item { watch, key } = self.item.key().clone();
        let names = version.renamed_watches.lock().get(&watch).cloned().unwrap_or_default();
        if names.is_empty() {
            tracing::debug!(plugin = %self.guest.name, %watch, %key, "dropped: its target watch is gone");
        }
        for name in names {
            self.queue_as(&Item { watch: name, key: key.clone() });
        }
        self.item.forget();
        self.is_handled = true;
    }

    fn queue_as(&self, item: &Item) {
        let reasons = &self.request.reasons;
        for reason in if reasons.is_empty() { &[Reason::Other] } else { &**reasons } {
            let (priority, event_at) = (self.item.priority(), self.item.event_at());
            self.guest.queue.add_for_event(item.clone(), *reason, priority, event_at.map(Into::into));
        }
    }
}

impl Drop for ReconcileAttempt<'_> {
    fn drop(&mut self) {
        if self.is_handled {
            return;
        }
        let reasons = &self.request.reasons;
        let reasons = if reasons.is_empty() { &[Reason::Other] } else { &**reasons };
        if !std::thread::panicking() {
            self.guest.queue.requeue_taken(&mut self.item, reasons);
        } else {
            // The next worker may panic at this key, too, so the key is delayed as after a failure.
            if let Some(delay) = self.guest.queue.retry(&mut self.item, reasons) {
                self.guest.queue.requeue_taken_after(&mut self.item, reasons, delay);
            }
        }
        // The item is dropped after this; only then does the queue give the key that was added to a worker.
    }
}

/// Counts a reconcile as active until it is dropped.
struct ActiveReconcile<'a>(&'a GuestServices);

impl<'a> ActiveReconcile<'a> {
    fn begin(guest: &'a GuestServices) -> Self {
        guest.metrics.active_workers.inc();
        Self(guest)
    }
}

impl Drop for ActiveReconcile<'_> {
    fn drop(&mut self) {
        self.0.metrics.active_workers.dec();
    }
}

struct Reconciled {
    outcome: Result<Outcome, Failure>,
    started: Instant,
    time: Duration,
}

impl Reconciled {
    /// Returns what the journal keeps of the reconcile.
    fn record(&self, attempts: u32, reasons: &[Reason], trace: u32) -> ReconcileRecord {
        ReconcileRecord {
            microseconds: u32::try_from(self.time.as_micros()).unwrap_or(u32::MAX),
            attempt: u16::try_from(attempts).unwrap_or(u16::MAX),
            reasons: reason_bits(reasons),
            outcome: ReconcileOutcome::of(&self.outcome),
            trace,
        }
    }
}

/// Returns the request that the guest receives: the same one, unless a simulation withholds the reasons.
fn seen_by_guest(guest: &GuestServices, request: &Arc<Request>) -> Arc<Request> {
    if !guest.withholds_reasons.load(Ordering::Relaxed) {
        return Arc::clone(request);
    }
    Arc::new(Request { reasons: vec![Reason::Other], attempt: 0, ..Request::clone(request) })
}

/// Calls the guest; `None` while the observer of a stateful plugin has not caught up.
async fn reconcile(version: &Version, request: &Arc<Request>) -> Option<Reconciled> {
    let started = Instant::now();
    let outcome = if version.descriptor.stateful {
        version.dedicated_instance.reconcile(request).await?
    } else {
        match version.pool.checkout().await {
            Ok(mut instance) => instance.reconcile(Arc::clone(request)).await,
            Err(fault) => Err(fault.into()),
        }
    };
    Some(Reconciled { outcome, started, time: started.elapsed() })
}

/// Requeues or forgets the key, depending on the outcome. Runs before the key is released, so that it cannot be lost.
fn record_outcome(
    guest: &GuestServices,
    errors: &RecentErrors,
    item: &mut HeldItem,
    reasons: &[Reason],
    reconciled: Reconciled,
    exported: Option<ExportedTrace>,
) {
    let metrics = &guest.metrics;
    let labels = || exported.map(|trace| trace.labels());
    metrics.reconcile_time.observe(reconciled.time.as_secs_f64(), labels(), None);
    if let Some(event_at) = item.event_at() {
        let delay = reconciled.started.saturating_duration_since(event_at);
        metrics.event_to_reconcile.observe(delay.as_secs_f64(), labels(), None);
    }
    guest.journal.record_reconcile(
        &item.key().watch,
        &item.key().key,
        reconciled.record(item.attempts(), reasons, exported.map_or(0, |trace| trace.number)),
    );
    guest.slow_reconciles.record(item.key(), reconciled.time, || guest.environment.clock.now());
    match reconciled.outcome {
        Ok(Outcome::Done) => {
            errors.record_success();
            metrics.succeeded.inc();
            item.forget();
        }
        Ok(Outcome::RequeueAfter(delay)) => {
            errors.record_success();
            metrics.requeued_after.inc();
            item.forget();
            guest.queue.requeue_after(item, reasons, delay);
        }
        Err(Failure::Terminal(problem)) => {
            metrics.failed.inc();
            metrics.errors.inc();
            metrics.terminal_errors.inc();
            item.forget();
            let Item { watch, key } = item.key();
            errors.record_error(watch, key.as_str(), &problem);
            guest.log.failure(
                LogLevel::Error,
                format_args!("failed with a terminal error: {problem}"),
                &"not tried again until the object changes",
                traced_fields(
                    exported,
                    &[("watch", watch), ("key", key), ("trace_id", &TraceIdField(exported))],
                ),
            );
        }
        Err(failure) => {
            metrics.failed.inc();
            metrics.errors.inc();
            if let Failure::Fault(fault) = &failure {
                match fault.kind() {
                    FaultKind::Timeout { .. } => metrics.timeouts.inc(),
                    _ => metrics.panics.inc(),
                };
            }
            let attempt = item.attempts() + 1;
            let retry = RetryDelay(guest.queue.retry(item, reasons));
            let Item { watch, key } = item.key();
            errors.record_error(watch, key.as_str(), &failure);
            guest.log.failure(
                LogLevel::Warn,
                format_args!("failed: {failure}"),
                &retry,
                traced_fields(
                    exported,
                    &[
                        ("watch", watch),
                        ("key", key),
                        ("attempt", &attempt),
                        ("trace_id", &TraceIdField(exported)),
                    ],
                ),
            );
        }
    }
}

/// Returns the fields of a log line, of which the last is the trace's identifier, without that if the trace is not exported.
fn traced_fields<'a, 'b>(
    exported: Option<ExportedTrace>,
    fields: &'b [(&'a str, &'a dyn std::fmt::Display)],
) -> &'b [(&'a str, &'a dyn std::fmt::Display)] {
    if exported.is_some() { fields } else { &fields[..fields.len() - 1] }
}

/// The identifier of a trace in a log line.
struct TraceIdField(Option<ExportedTrace>);

impl std::fmt::Display for TraceIdField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |trace| write!(f, "{}", trace.id))
    }
}

/// The delay of a retry, for a log line; `None` once the queue is shut down.
struct RetryDelay(Option<Duration>);

impl std::fmt::Display for RetryDelay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(delay) => write!(f, "tried again in {delay:?}"),
            None => f.write_str("not tried again, the plugin is stopping"),
        }
    }
}

/// [`ReconcileAttempt::requeue_renamed`] for a key that was just taken.
#[cfg(test)]
pub(super) fn requeue_renamed(
    guest: &GuestServices,
    item: HeldItem,
    reasons: Vec<Reason>,
    version: &Version,
) {
    ReconcileAttempt::new(guest, item, reasons).requeue_renamed(version);
}

#[cfg(test)]
mod tests {
    use pilothouse_informer::Priority;
    use pilothouse_model::ObjectKey;

    use super::super::running::{Canary, RunningVersions};
    use super::*;
    use crate::config::canary_share::CanaryShare;
    use crate::metrics::Metrics;
    use crate::trace::{TraceOptions, Tracer};

    fn guest() -> GuestServices {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        GuestServices::for_test("held", kube::Client::new(service, "default"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_an_aborted_worker_holds_goes_back_into_the_queue() {
        let guest = guest();
        let running = RunningVersion::default();
        let exclusive = running.write().await;
        let gate = watch::Sender::new(WorkGate::default());
        let mut workers = super::super::workers::Workers::default();
        workers.resize(1, |slot| work(slot, Arc::clone(&running), gate.subscribe(), guest.clone()));
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        guest.queue.add(item.clone(), Reason::Deleted, Priority::Normal);
        while guest.queue.snapshot().depth > 0 {
            tokio::task::yield_now().await;
        }
        // The worker has the key, and waits for the lock.
        workers.shutdown().await;
        drop(exclusive);
        let (again, reasons) = guest.queue.get().await.expect("the key");
        assert_eq!((again.key(), reasons), (&item, vec![Reason::Deleted]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_panics_returns_its_key_and_is_restarted() {
        let guest = guest();
        let pool = Version::test_pool(&guest, "done.wat", pilothouse_plugin::InstanceLimits::default()).await;
        let mut views = crate::cache::views::Views::default();
        let view = crate::runtime::handover::tests::view(&guest);
        views.by_name.insert("maps".into(), Box::new(view));
        let version = Arc::new(Version::for_test(pool, Arc::new(views)));
        let running: RunningVersion = Arc::new(tokio::sync::RwLock::new(Arc::clone(&version).into()));
        let gate = watch::Sender::new(WorkGate::new(version.health.clone(), None));
        guest.panics.arm("worker", 2);
        let mut workers = super::super::workers::Workers::default();
        workers.resize(1, |slot| work(slot, Arc::clone(&running), gate.subscribe(), guest.clone()));
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        guest.queue.add(item, Reason::Deleted, Priority::Normal);
        let started = Instant::now();
        while guest.metrics.succeeded.get() == 0 {
            assert!(started.elapsed().as_secs() < 60, "the key is lost");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!((guest.metrics.task_panics.get(), guest.metrics.active_workers.get()), (2, 0));
        let status = guest.panics.status_text().expect("a problem in the status");
        assert!(
            status.contains("worker task panicked: a defect in the worker; started again in 200ms"),
            "{status}"
        );
        let lines = guest.log.all().after(0, None);
        assert_eq!(lines.iter().filter(|line| line.message.contains("panicked")).count(), 2);
        tokio::time::advance(std::time::Duration::from_secs(180)).await;
        assert_eq!(guest.panics.status_text(), None, "the worker has not panicked since");
        workers.shutdown().await;
    }

    /// A version whose only watch, of ConfigMaps, is a target.
    async fn version(guest: &GuestServices, file: &str) -> Arc<Version> {
        let pool = Version::test_pool(guest, file, pilothouse_plugin::InstanceLimits::default()).await;
        let mut views = crate::cache::views::Views::default();
        let view = crate::runtime::handover::tests::view(guest);
        views.by_name.insert("maps".into(), Box::new(view));
        Arc::new(Version::for_test(pool, Arc::new(views)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_waits_for_a_blocked_version_continues_when_a_canary_begins() {
        let guest = guest();
        let (stable, canary) = (version(&guest, "done.wat").await, version(&guest, "done.wat").await);
        stable.views.access.set_paused(true);
        let gate = watch::Sender::new(WorkGate::new(stable.health.clone(), None));
        let running: RunningVersion = Arc::new(tokio::sync::RwLock::new(Arc::clone(&stable).into()));
        let mut workers = super::super::workers::Workers::default();
        workers.resize(1, |slot| work(slot, Arc::clone(&running), gate.subscribe(), guest.clone()));
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        guest.queue.add(item, Reason::Updated, Priority::Normal);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(guest.queue.snapshot().depth, 1, "the worker waits");
        let health = canary.health.clone();
        let share = CanaryShare::Percent(100);
        let canary = Arc::new(Canary { version: canary, share, recent_errors: RecentErrors::default() });
        running.write().await.canary = Some(canary);
        gate.send_replace(WorkGate::new(stable.health.clone(), Some(health)));
        let started = Instant::now();
        while guest.metrics.canary_succeeded.get() == 0 {
            assert!(started.elapsed().as_secs() < 60, "the worker still waits");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        workers.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_of_a_version_that_backs_off_waits_until_the_backoff_ends() {
        let guest = guest();
        let version = version(&guest, "done.wat").await;
        assert_eq!(blocked_key_delay(&version), BLOCKED_KEY_DELAY);
        let health = &version.health;
        for _ in 0..5 {
            health.record_fault(Activity::Reconcile, None, &"it trapped");
        }
        // Each probe that fails doubles the backoff.
        for _ in 0..4 {
            health.wait_until_allowed().await;
            health.try_acquire().expect("the probe").failed(Activity::Reconcile, None, &"it trapped");
        }
        let delay = blocked_key_delay(&version);
        assert!(delay > Duration::from_secs(10), "{delay:?}");
        tokio::time::advance(delay).await;
        let _probe = health.try_acquire().expect("the probe");
        assert_eq!(blocked_key_delay(&version), BLOCKED_KEY_DELAY, "nobody knows when the probe ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_does_not_learn_the_reasons_that_are_withheld() {
        let guest = guest();
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        guest.queue.add(item, Reason::Created, Priority::Normal);
        let (item, reasons) = guest.queue.get().await.expect("the key");
        let mut attempt = ReconcileAttempt::new(&guest, item, reasons);
        Arc::make_mut(&mut attempt.request).attempt = 3;
        assert_eq!(seen_by_guest(&guest, &attempt.request), attempt.request);
        guest.withholds_reasons.store(true, Ordering::Relaxed);
        let seen = seen_by_guest(&guest, &attempt.request);
        assert_eq!((seen.reasons.as_slice(), seen.attempt), (&[Reason::Other][..], 0));
        assert_eq!((&seen.watch, &seen.key), (&attempt.request.watch, &attempt.request.key));
        assert_eq!(attempt.request.reasons, [Reason::Created], "the host still knows them");
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_gets_the_trace_of_a_reconcile_that_was_sampled() {
        for (ratio, traces) in [(1.0, 1), (0.0, 0)] {
            let mut guest = guest();
            let options = TraceOptions { ratio, slow: Duration::MAX };
            let metrics = Metrics::register(&mut Default::default());
            let (tracer, _spans) = Tracer::new(&options, &metrics, &guest.environment);
            guest.tracer = tracer;
            let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
            guest.queue.add(item, Reason::Created, Priority::Normal);
            let (item, reasons) = guest.queue.get().await.expect("the key");
            let attempt = ReconcileAttempt::new(&guest, item, reasons);
            let extra = &attempt.request.extra;
            assert_eq!(extra.len(), traces);
            let id = attempt.trace.as_ref().expect("a trace").sampled_id();
            for ((name, value), id) in extra.iter().zip(id) {
                assert_eq!(name, "traceparent");
                assert!(value.starts_with(&format!("00-{id}-")) && value.ends_with("-01"), "{value}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_without_tracing_allocates_only_its_request() {
        let begin = async |guest: &GuestServices| {
            let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
            guest.queue.add(item, Reason::Created, Priority::Normal);
            let (item, reasons) = guest.queue.get().await.expect("the key");
            let mut request = None;
            let without_spans = allocation_counter::measure(|| {
                let Item { watch, key } = item.key().clone();
                let (attempt, event_at) = (item.attempts(), item.event_at());
                let (reasons, extra, host_context) = (Vec::new(), Vec::new(), None);
                request =
                    Some(Arc::new(Request { watch, key, reasons, attempt, extra, event_at, host_context }));
            });
            let mut attempt = None;
            let begun = allocation_counter::measure(|| {
                attempt = Some(ReconcileAttempt::new(guest, item, reasons));
            });
            (without_spans.count_total, begun.count_total)
        };
        let mut guest = guest();
        let (without_spans, off) = begin(&guest).await;
        assert_eq!(off, without_spans);
        let options = TraceOptions { ratio: 0.0, slow: Duration::MAX };
        let metrics = Metrics::register(&mut Default::default());
        let (tracer, _spans) = Tracer::new(&options, &metrics, &guest.environment);
        guest.tracer = tracer;
        let (without_spans, on) = begin(&guest).await;
        assert!(on > without_spans, "{on} allocations with a trace, {without_spans} without");
    }

    #[tokio::test(start_paused = true)]
    async fn a_canary_that_backs_off_delays_only_its_own_keys() {
        let guest = guest();
        let (stable, canary) = (version(&guest, "done.wat").await, version(&guest, "done.wat").await);
        for _ in 0..5 {
            canary.health.record_fault(Activity::Reconcile, None, &"it trapped");
        }
        let gate = WorkGate::new(stable.health.clone(), Some(canary.health.clone()));
        let gate = watch::Sender::new(gate);
        let share = CanaryShare::Namespaces(vec!["canary".to_owned()]);
        let canary = Arc::new(Canary { version: canary, share, recent_errors: RecentErrors::default() });
        let versions = RunningVersions { stable: Some(stable), canary: Some(canary) };
        let running: RunningVersion = Arc::new(tokio::sync::RwLock::new(versions));
        let mut workers = super::super::workers::Workers::default();
        workers.resize(1, |slot| work(slot, Arc::clone(&running), gate.subscribe(), guest.clone()));
        for namespace in ["canary", "n"] {
            let item = Item { watch: "maps".into(), key: ObjectKey::new(namespace, "a") };
            guest.queue.add(item, Reason::Updated, Priority::Normal);
        }
        while guest.metrics.succeeded.get() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let counts = (guest.metrics.canary_succeeded.get(), guest.queue.snapshot().delayed);
        assert_eq!(counts, (0, 1), "the key of the canary waits");
        while guest.metrics.succeeded.get() == 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(guest.metrics.canary_succeeded.get(), 1, "the canary has recovered");
        assert_eq!(guest.metrics.reconciles().reconciles, 1, "those of the canary are counted apart");
        workers.shutdown().await;
    }
}
