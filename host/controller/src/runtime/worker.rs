//! A worker: takes keys from the plugin's queue and has the running version reconcile them, one at a time.

use std::sync::Arc;

use pilothouse_informer::Priority;
use pilothouse_plugin::{Failure, FaultKind, LogLevel, Outcome, Reason, Request};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Gate;
use super::workers::Place;
use crate::client::in_flight::HeldItem;
use crate::guest_host::GuestServices;
use crate::lifecycle::{Activity, Health};
use crate::load::version::Version;
use crate::runtime::hot_loop;
use crate::runtime::queue::Item;

/// Takes keys from the queue until it is shut down or the worker is surplus. A panic restarts the worker. `health` follows the running
/// version.
pub(super) async fn work(place: Place, gate: Gate, health: watch::Receiver<Health>, guest: GuestServices) {
    let supervisor = guest.clone();
    let mut worker = Worker { place, gate, health, guest };
    supervisor.supervise("worker", &mut worker, |worker| Box::pin(worker.run())).await;
}

struct Worker {
    place: Place,
    gate: Gate,
    health: watch::Receiver<Health>,
    guest: GuestServices,
}

impl Worker {
    async fn run(&mut self) {
        let Self { place, gate, health, guest } = self;
        let guest = &*guest;
        let mut running = health.borrow_and_update().clone();
        while !place.is_surplus() {
            // An error means that there will be no other.
            if health.has_changed().is_ok_and(|changed| changed) {
                running = health.borrow_and_update().clone();
            }
            // While the plugin backs off or lacks a right, its keys stay in the queue.
            tokio::select! {
                biased;
                () = running.opens() => {}
                () = place.surplus() => return,
            }
            let got = tokio::select! {
                biased;
                got = guest.queue.get() => got,
                () = running.closes() => continue,
                () = place.surplus() => return,
            };
            let Some((item, reasons)) = got else { return };
            let mut held = Held::new(guest, item, reasons);
            let request = Arc::clone(&held.request);
            if let Some(wait) = guest.hot_loops.begin(held.item.key(), &request.reasons) {
                guest.queue.put_off(&mut held.item, &request.reasons, wait);
                held.settled = true;
                continue;
            }
            loop {
                // Held while reconciling: a swap waits for it. The key is held, too, and nobody else gets it.
                let gate = gate.read().await;
                let Some(version) = gate.as_ref() else { return };
                if !version.views.is_target(&request.watch) {
                    held.rename(version);
                    break;
                }
                // It may not work since a moment ago: the key goes back.
                let Some(pass) = version.health.enter() else { break };
                let active = Active::begin(guest);
                guest.panics.point("worker");
                let outcome = reconcile(version, &request).await;
                drop(active);
                if let Some(reconciled) = outcome {
                    match &reconciled.outcome {
                        Err(Failure::Fault(fault)) => {
                            pass.failed(Activity::Reconcile, Some(held.item.key()), fault);
                        }
                        _ => pass.answered(Activity::Reconcile),
                    }
                    settle(guest, &mut held.item, &request.reasons, reconciled);
                    held.settled = true;
                    if let Some(found) = guest.hot_loops.end(held.item.key()) {
                        hot_loop::report(guest, held.item.key(), &found);
                    }
                    break;
                }
                drop(pass);
                // Its observer has to hear of everything first. Waited for outside of the gate, which the observer needs.
                let mut caught_up = version.pinned.caught_up();
                drop(gate);
                // An error means that the version is gone; the next one is looked at.
                let _ = caught_up.wait_for(|caught_up| *caught_up).await;
            }
        }
    }
}

/// A key in a worker's hands. A worker may be ended wherever it waits: a key that it has not settled by then goes back into the
/// queue.
struct Held<'a> {
    guest: &'a GuestServices,
    item: HeldItem,
    request: Arc<Request>,
    settled: bool,
}

impl<'a> Held<'a> {
    fn new(guest: &'a GuestServices, item: HeldItem, reasons: Vec<Reason>) -> Self {
        let Item { watch, key } = item.key().clone();
        let request = Request { watch, key, reasons, attempt: item.attempts(), extra: Vec::new() };
        Self { guest, item, request: Arc::new(request), settled: false }
    }
}

impl Held<'_> {
    /// Queues the key under the names that its watch has now, or drops it where no target watch of its resource is left.
    fn rename(&mut self, version: &Version) {
        let Item { watch, key } = self.item.key().clone();
        let names = version.renamed.lock().get(&watch).cloned().unwrap_or_default();
        if names.is_empty() {
            tracing::debug!(plugin = %self.guest.name, %watch, %key, "dropped: its target watch is gone");
        }
        for name in names {
            self.queue_as(&Item { watch: name, key: key.clone() });
        }
        self.item.forget();
        self.settled = true;
    }

    fn queue_as(&self, item: &Item) {
        let reasons = &self.request.reasons;
        for reason in if reasons.is_empty() { &[Reason::Other] } else { &**reasons } {
            self.guest.queue.add(item.clone(), *reason, self.item.priority());
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let reasons = &self.request.reasons;
        let reasons = if reasons.is_empty() { &[Reason::Other] } else { &**reasons };
        if !std::thread::panicking() {
            self.guest.queue.put_back(&mut self.item, reasons);
        } else {
            // The next worker may panic at it, too: it waits as after a failure.
            let priority = self.item.priority();
            if let Some(delay) = self.guest.queue.retry(&mut self.item, reasons, priority) {
                self.guest.queue.put_off(&mut self.item, reasons, delay);
            }
        }
        // The item itself is let go of after this, which gives the key that was added to the next worker.
    }
}

/// Counts a reconcile while it runs, however it ends.
struct Active<'a>(&'a GuestServices);

impl<'a> Active<'a> {
    fn begin(guest: &'a GuestServices) -> Self {
        guest.metrics.active_workers.inc();
        Self(guest)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.metrics.active_workers.dec();
    }
}

struct Reconciled {
    outcome: Result<Outcome, Failure>,
    seconds: f64,
}

/// `None` while the instance of a stateful plugin is not ready for it.
async fn reconcile(version: &Version, request: &Arc<Request>) -> Option<Reconciled> {
    let started = Instant::now();
    let outcome = if version.descriptor.stateful {
        version.pinned.reconcile(request).await?
    } else {
        match version.pool.checkout().await {
            Ok(mut instance) => instance.reconcile(Arc::clone(request)).await,
            Err(fault) => Err(fault.into()),
        }
    };
    Some(Reconciled { outcome, seconds: started.elapsed().as_secs_f64() })
}

/// Puts the key where the outcome says. Done before the key is let go, so that it is never nowhere.
fn settle(guest: &GuestServices, item: &mut HeldItem, reasons: &[Reason], reconciled: Reconciled) {
    let metrics = &guest.metrics;
    metrics.reconcile_time.observe(reconciled.seconds);
    match reconciled.outcome {
        Ok(Outcome::Done) => {
            metrics.succeeded.inc();
            item.forget();
        }
        Ok(Outcome::RequeueAfter(delay)) => {
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
            guest.log.failure(
                LogLevel::Error,
                format_args!("failed for good: {problem}"),
                &"not tried again until the object changes",
                &[("watch", watch), ("key", key)],
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
            let again = Again(guest.queue.retry(item, reasons, Priority::Normal));
            let Item { watch, key } = item.key();
            guest.log.failure(
                LogLevel::Warn,
                format_args!("failed: {failure}"),
                &again,
                &[("watch", watch), ("key", key), ("attempt", &attempt)],
            );
        }
    }
}

struct Again(Option<std::time::Duration>);

impl std::fmt::Display for Again {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(delay) => write!(f, "tried again in {delay:?}"),
            None => f.write_str("not tried again, the plugin is stopping"),
        }
    }
}

/// [`Held::rename`] of a key that was just taken.
#[cfg(test)]
pub(super) fn rename(guest: &GuestServices, item: HeldItem, reasons: Vec<Reason>, version: &Version) {
    Held::new(guest, item, reasons).rename(version);
}

#[cfg(test)]
mod tests {
    use pilothouse_model::ObjectKey;

    use super::*;

    fn guest() -> GuestServices {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        GuestServices::for_test("held", kube::Client::new(service, "default"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_a_worker_holds_when_it_is_ended_goes_back() {
        let guest = guest();
        let gate = Gate::default();
        let closed = gate.write().await;
        let health = watch::Sender::new(Health::default());
        let mut workers = super::super::workers::Workers::default();
        workers.set(1, |place| work(place, Arc::clone(&gate), health.subscribe(), guest.clone()));
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        guest.queue.add(item.clone(), Reason::Deleted, Priority::Normal);
        while guest.queue.snapshot().depth > 0 {
            tokio::task::yield_now().await;
        }
        // It has the key, and waits for the gate.
        workers.shutdown().await;
        drop(closed);
        let (again, reasons) = guest.queue.get().await.expect("the key");
        assert_eq!((again.key(), reasons), (&item, vec![Reason::Deleted]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_panics_gives_its_key_back_and_is_started_again() {
        let guest = guest();
        let pool = Version::test_pool(&guest, "done.wat", pilothouse_plugin::Limits::default()).await;
        let mut views = crate::cache::views::Views::default();
        let view = crate::runtime::handover::tests::view(&guest);
        views.by_name.insert("maps".into(), Box::new(view));
        let version = Arc::new(Version::for_test(pool, Arc::new(views)));
        let gate: Gate = Arc::new(tokio::sync::RwLock::new(Some(Arc::clone(&version))));
        let health = watch::Sender::new(version.health.clone());
        guest.panics.arm("worker", 2);
        let mut workers = super::super::workers::Workers::default();
        workers.set(1, |place| work(place, Arc::clone(&gate), health.subscribe(), guest.clone()));
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        guest.queue.add(item, Reason::Deleted, Priority::Normal);
        let started = Instant::now();
        while guest.metrics.succeeded.get() == 0 {
            assert!(started.elapsed().as_secs() < 60, "the key is lost");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!((guest.metrics.task_panics.get(), guest.metrics.active_workers.get()), (2, 0));
        let told = guest.panics.trouble().expect("it is in the status");
        assert!(
            told.contains("worker task panicked: a defect in the worker; started again in 200ms"),
            "{told}"
        );
        let lines = guest.log.all().after(0, None);
        assert_eq!(lines.iter().filter(|line| line.message.contains("panicked")).count(), 2);
        tokio::time::advance(std::time::Duration::from_secs(180)).await;
        assert_eq!(guest.panics.trouble(), None, "it has run well since");
        workers.shutdown().await;
    }
}
