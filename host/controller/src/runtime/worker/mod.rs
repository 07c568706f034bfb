//! A worker: takes keys from the plugin's queue and reconciles them, one at a time, with the running version or, if the key is among those of
//! its canary, with that.

mod attempt;
mod outcome;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pilothouse_plugin::{Failure, Reason, Request};
use tokio::sync::watch;
use tokio::time::Instant;

use super::running::SharedVersions;
use super::running_health::RunningHealth;
use super::workers::WorkerSlot;
use crate::guest_host::PluginServices;
use crate::lifecycle::Activity;
use crate::load::version::Version;
use crate::runtime::hot_loop;
use attempt::ReconcileAttempt;
#[cfg(test)]
pub(super) use attempt::requeue_renamed;
use outcome::{FinishedReconcile, apply_outcome};

/// How long a key waits at least whose version may not be called, while the other version works. The version may be suspended, or another key
/// may be the one with which it is probed.
const BLOCKED_KEY_DELAY: Duration = Duration::from_secs(1);

/// Reconciles keys until the queue is shut down or the worker is surplus. A panic restarts the worker. `gate` is that of the running versions.
pub(super) async fn work(
    slot: WorkerSlot,
    running: SharedVersions,
    gate: watch::Receiver<RunningHealth>,
    plugin: PluginServices,
) {
    let supervisor = plugin.clone();
    let mut worker = Worker { slot, running, gate, plugin };
    supervisor.supervise("worker", &mut worker, |worker| Box::pin(worker.run())).await;
}

struct Worker {
    slot: WorkerSlot,
    running: SharedVersions,
    gate: watch::Receiver<RunningHealth>,
    plugin: PluginServices,
}

impl Worker {
    async fn run(&mut self) {
        let Self { slot, running, gate, plugin } = self;
        let plugin = &*plugin;
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
                next = plugin.queue.get() => next,
                () = current_gate.wait_until_blocked() => continue,
                () = slot.wait_until_surplus() => return,
            };
            let Some((item, reasons)) = next else { return };
            let mut held = ReconcileAttempt::new(plugin, item, reasons);
            let request = Arc::clone(&held.request);
            if let Some(delay) = plugin.hot_loops.begin(held.item.key(), &request.reasons) {
                plugin.queue.requeue_taken_after(&mut held.item, &request.reasons, delay);
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
                let Some(permit) = version.health.try_acquire() else {
                    if running.canary.is_some() {
                        // The worker goes on with the keys of the other version, so this one must not come back at once.
                        let reasons = request.reasons.as_slice();
                        plugin.queue.requeue_blocked(&mut held.item, reasons, blocked_key_delay(version));
                        held.is_handled = true;
                    }
                    break;
                };
                let active = ActiveReconcile::begin(plugin);
                plugin.panics.inject_test_panic("worker");
                let outcome = reconcile(version, &seen_by_guest(plugin, &request)).await;
                drop(active);
                if let Some(finished) = outcome {
                    match &finished.outcome {
                        Err(Failure::Fault(fault)) => {
                            permit.failed(Activity::Reconcile, Some(held.item.key()), fault);
                        }
                        _ => permit.succeeded(Activity::Reconcile),
                    }
                    chosen.count(plugin, finished.outcome.is_err());
                    let errors = chosen.recent_errors(plugin);
                    let exported = held.end_trace(&finished);
                    apply_outcome(plugin, errors, &mut held.item, &request.reasons, finished, exported);
                    held.is_handled = true;
                    if let Some(found) = plugin.hot_loops.end(held.item.key()) {
                        hot_loop::report(plugin, held.item.key(), &found);
                    }
                    break;
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
}

/// Returns how long a key waits whose version may not be called: until the end of its backoff, if it has one.
fn blocked_key_delay(version: &Version) -> Duration {
    version.health.blocked_for().unwrap_or_default().max(BLOCKED_KEY_DELAY)
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
