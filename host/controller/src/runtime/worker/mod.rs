//! A worker: takes keys from the plugin's queue and reconciles them, one at a time, with the running version or, if the key is among those of
//! its canary, with that.

mod attempt;
mod outcome;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pilothouse_informer::ExponentialBackoff;
use pilothouse_plugin::{Failure, Reason, Request};
use tokio::sync::watch;
use tokio::time::Instant;

use super::running::{ChosenVersion, SharedVersions};
use super::running_health::RunningHealth;
use super::workers::WorkerSlot;
use crate::client::in_flight::HeldItem;
use crate::guest_host::PluginServices;
use crate::lifecycle::{Activity, CallPermit};
use crate::load::version::Version;
use crate::runtime::hot_loop;
use attempt::ReconcileAttempt;
#[cfg(test)]
pub(super) use attempt::requeue_renamed;
use outcome::{FinishedReconcile, apply_outcome};

/// How long a key waits at least whose version may not be called, while the other version works. The version may be suspended, or another key
/// may be the one with which it is probed.
const BLOCKED_KEY_DELAY: Duration = Duration::from_secs(1);
/// How long such a key waits at most if nobody knows when the version may be called.
const MAX_BLOCKED_KEY_DELAY: Duration = Duration::from_secs(60);

/// Reconciles keys until the queue is shut down or the worker is surplus. A panic restarts the worker.
pub(super) async fn run_worker(
    slot: WorkerSlot,
    running: SharedVersions,
    health_updates: watch::Receiver<RunningHealth>,
    plugin: PluginServices,
) {
    let supervisor = plugin.clone();
    let health = health_updates.borrow().clone();
    let mut worker = Worker { slot, running, health, health_updates, plugin };
    supervisor.supervise("worker", &mut worker, |worker| Box::pin(worker.run())).await;
}

struct Worker {
    slot: WorkerSlot,
    running: SharedVersions,
    /// The health of the running versions.
    health: RunningHealth,
    /// Receives the health of other versions when they run.
    health_updates: watch::Receiver<RunningHealth>,
    plugin: PluginServices,
}

impl Worker {
    async fn run(&mut self) {
        while let Some((mut item, reasons)) = self.next_item().await {
            let running = &self.running;
            if self.health.has_canary() && put_back_if_blocked(&self.plugin, running, &mut item, &reasons) {
                continue;
            }
            let mut attempt = ReconcileAttempt::new(&self.plugin, item, reasons);
            if let Some(delay) = self.plugin.hot_loops.begin(attempt.item.key(), &attempt.request.reasons) {
                attempt.requeue_after_delay(delay);
            } else if self.reconcile(&mut attempt).await.is_break() {
                return;
            }
        }
    }

    /// Takes the next key and its reasons from the queue. `None` once the queue is shut down or the worker is surplus. While the plugin backs
    /// off or lacks a permission, its keys stay in the queue.
    async fn next_item(&mut self) -> Option<(HeldItem, Vec<Reason>)> {
        while !self.slot.is_surplus() {
            // An error means that the plugin's task is gone, and that no other version will run.
            if self.health_updates.has_changed().is_ok_and(|changed| changed) {
                self.health = self.health_updates.borrow_and_update().clone();
            }
            tokio::select! {
                biased;
                () = self.health.wait_until_allowed() => {}
                // Another version may be able to work, such as a canary that has begun.
                Ok(()) = self.health_updates.changed() => {
                    self.health = self.health_updates.borrow_and_update().clone();
                    continue;
                }
                () = self.slot.wait_until_surplus() => return None,
            }
            tokio::select! {
                biased;
                next = self.plugin.queue.get() => return next,
                () = self.health.wait_until_blocked() => {}
                () = self.slot.wait_until_surplus() => return None,
            }
        }
        None
    }

    /// Reconciles a key with the version that has it. Breaks if no version runs any more.
    async fn reconcile(&self, attempt: &mut ReconcileAttempt<'_>) -> ControlFlow<()> {
        let plugin = &self.plugin;
        let request = Arc::clone(&attempt.request);
        loop {
            // The read lock is held during the reconcile, so that a swap waits for its end. No other worker gets the key meanwhile.
            let running = self.running.read().await;
            let Some(chosen) = running.version_for(&request.key) else { return ControlFlow::Break(()) };
            let version = chosen.version;
            if !version.views.is_target(&request.watch) {
                attempt.requeue_renamed(version);
                return ControlFlow::Continue(());
            }
            // The plugin has just begun to back off, or lost a permission: the key goes back into the queue.
            let Some(permit) = version.health.try_acquire() else {
                if running.canary.is_some() {
                    // The worker goes on with the keys of the other version, so this one must not come back at once.
                    put_back(plugin, version, &mut attempt.item, &request.reasons);
                    attempt.is_handled = true;
                }
                return ControlFlow::Continue(());
            };
            let active = ActiveReconcile::begin(plugin);
            plugin.panics.inject_test_panic("worker");
            let outcome = reconcile(version, &seen_by_guest(plugin, &request)).await;
            drop(active);
            if let Some(finished) = outcome {
                finish(plugin, attempt, chosen, permit, finished);
                return ControlFlow::Continue(());
            }
            drop(permit);
            // The observer has to catch up first. It needs a read lock for that, behind which a swap may wait: so wait without one.
            let mut caught_up = version.dedicated_instance.subscribe_caught_up();
            drop(running);
            // An error means that the version was replaced: try the next one.
            let _ = caught_up.wait_for(|caught_up| *caught_up).await;
        }
    }
}

/// Records the outcome of a reconcile, and requeues or forgets its key.
fn finish(
    plugin: &PluginServices,
    attempt: &mut ReconcileAttempt<'_>,
    chosen: ChosenVersion<'_>,
    permit: CallPermit<'_>,
    finished: FinishedReconcile,
) {
    match &finished.outcome {
        Err(Failure::Fault(fault)) => permit.failed(Activity::Reconcile, Some(attempt.item.key()), fault),
        _ => permit.succeeded(Activity::Reconcile),
    }
    chosen.count(plugin, finished.outcome.is_err());
    let errors = chosen.recent_errors(plugin);
    let exported = attempt.end_trace(&finished);
    apply_outcome(plugin, errors, &mut attempt.item, &attempt.request.reasons, finished, exported);
    attempt.is_handled = true;
    if let Some(found) = plugin.hot_loops.end(attempt.item.key()) {
        hot_loop::report(plugin, attempt.item.key(), &found);
    }
}

/// Puts a key back into the queue if its version may not be called, before anything is counted or traced for it. Returns whether it did.
fn put_back_if_blocked(
    plugin: &PluginServices,
    running: &SharedVersions,
    item: &mut HeldItem,
    reasons: &[Reason],
) -> bool {
    // The versions change, and the reconcile waits for that.
    let Ok(running) = running.try_read() else { return false };
    let Some(chosen) = running.version_for(&item.key().key).filter(|_| running.canary.is_some()) else {
        return false;
    };
    let version = chosen.version;
    if !version.views.is_target(&item.key().watch) || !version.health.is_blocked() {
        return false;
    }
    put_back(plugin, version, item, reasons);
    true
}

/// Puts a key back into the queue whose version may not be called.
fn put_back(plugin: &PluginServices, version: &Version, item: &mut HeldItem, reasons: &[Reason]) {
    let delay = blocked_key_delay(version.health.blocked_for(), item.blocked_times());
    plugin.queue.requeue_blocked(item, reasons, delay);
}

/// Returns how long a key waits whose version may not be called: until the end of its backoff if it has one, else twice as long each time.
/// `times` is how often in a row the key has waited already.
fn blocked_key_delay(blocked_for: Option<Duration>, times: u8) -> Duration {
    let delay = || ExponentialBackoff::new(BLOCKED_KEY_DELAY, MAX_BLOCKED_KEY_DELAY).delay(times.into());
    blocked_for.map_or_else(delay, |known| known.max(BLOCKED_KEY_DELAY))
}

/// Counts a reconcile as active until it is dropped.
struct ActiveReconcile<'a>(&'a PluginServices);

impl<'a> ActiveReconcile<'a> {
    fn begin(plugin: &'a PluginServices) -> Self {
        plugin.metrics.active_workers.inc();
        Self(plugin)
    }
}

impl Drop for ActiveReconcile<'_> {
    fn drop(&mut self) {
        self.0.metrics.active_workers.dec();
    }
}

/// Returns the request that the guest receives: the same one, unless a simulation withholds the reasons.
fn seen_by_guest(plugin: &PluginServices, request: &Arc<Request>) -> Arc<Request> {
    if !plugin.withholds_reasons.load(Ordering::Relaxed) {
        return Arc::clone(request);
    }
    Arc::new(Request { reasons: vec![Reason::Other], attempt: 0, ..Request::clone(request) })
}

/// Calls the guest; `None` while the observer of a stateful plugin has not caught up.
async fn reconcile(version: &Version, request: &Arc<Request>) -> Option<FinishedReconcile> {
    let started = Instant::now();
    let outcome = if version.descriptor.stateful {
        version.dedicated_instance.reconcile(request).await?
    } else {
        match version.pool.checkout().await {
            Ok(mut instance) => instance.reconcile(Arc::clone(request)).await,
            Err(fault) => Err(fault.into()),
        }
    };
    Some(FinishedReconcile { outcome, started, time: started.elapsed() })
}

#[cfg(test)]
mod tests;
