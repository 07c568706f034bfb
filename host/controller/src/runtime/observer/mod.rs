//! The task that delivers every change to a plugin's observer: one batch at a time, to one instance. Nothing waits for the observer: what
//! it has not received yet stays in its subscriptions' backlogs, whose size is bounded by the number of objects.

mod delivery;
mod history;

use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use pilothouse_informer::ExponentialBackoff;
use pilothouse_informer::handler::FailureOutcome;
use pilothouse_model::{Notification, ObjectKey};
use pilothouse_plugin::{Failure, LogLevel, Observation};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, sleep_until};

use super::SharedVersions;
use crate::client::{NewEvent, short_note};
use crate::guest_host::{INSTANCE_IDLE_TIMEOUT, PluginServices};
use crate::lifecycle::{Activity, DynHash};
use crate::load::version::Version;
use delivery::DeliveryTracker;
pub(super) use history::DeliveryHistory;
use history::{InheritedObjects, SavedDeliveries};

/// An idle instance is kept if its successor would have to receive more objects than this.
const MAX_REPLAY: usize = 1024;
/// The maximum number of notifications in a batch of deletions, the same as in a batch of a subscription.
const BATCH: usize = 256;

struct Observer {
    running: SharedVersions,
    version: Arc<Version>,
    plugin: PluginServices,
    /// One per subscription of the version, in the same order.
    trackers: Vec<DeliveryTracker>,
    /// Whether each subscription has ended.
    ended: Vec<bool>,
    /// What the observers of earlier versions have received, until this one has caught up and the deletions among it are known.
    inherited: Vec<InheritedObjects>,
    /// Where this observer saves its state for the next one.
    saved: OwnedMutexGuard<SavedDeliveries>,
    /// When parked deletions are retried.
    retry_at: Option<Instant>,
    /// The instance to which the trackers refer.
    generation: u64,
    /// The subscription that is polled first in the next round, so that a busy one does not starve the others.
    first: usize,
}

/// Runs the observer of this version until the version is replaced or its informers stop. Aborting it between two calls loses nothing: its
/// state is saved in `history`.
pub(super) async fn observe(
    running: SharedVersions,
    version: Arc<Version>,
    plugin: PluginServices,
    history: DeliveryHistory,
) {
    let mut saved = history.lock().await;
    let (trackers, inherited) = saved.take(&version);
    let ended = vec![false; version.observer_subscriptions.len()];
    Observer {
        running,
        version,
        plugin,
        trackers,
        ended,
        inherited,
        saved,
        retry_at: None,
        generation: 0,
        first: 0,
    }
    .run()
    .await;
}

impl Drop for Observer {
    fn drop(&mut self) {
        let (trackers, inherited) = (std::mem::take(&mut self.trackers), std::mem::take(&mut self.inherited));
        self.saved.save(&self.version, trackers, inherited);
    }
}

/// The delay after so many failures in a row, at most 30 s.
fn backoff(failures: u32) -> Duration {
    ExponentialBackoff { max: Duration::from_secs(30), ..ExponentialBackoff::default() }.delay(failures)
}

impl Observer {
    async fn run(mut self) {
        let mut failed_starts = 0;
        loop {
            // The first instance is created when there is something to deliver, because most observers receive nothing for a long time. A
            // stateful plugin also reconciles on the instance, and needs it at once.
            let has_delivered_nothing = self.trackers.iter().all(|tracker| tracker.delivered_count() == 0);
            if self.generation == 0
                && has_delivered_nothing
                && !self.version.descriptor.stateful
                && self.next().is_none()
            {
                if !self.wait().await {
                    return;
                }
                continue;
            }
            match self.version.dedicated_instance.ensure().await {
                Ok(generation) if generation == self.generation => {}
                Ok(generation) => {
                    self.generation = generation;
                    self.trackers.iter_mut().for_each(DeliveryTracker::restart);
                }
                Err(fault) => {
                    failed_starts += 1;
                    let delay = backoff(failed_starts);
                    self.plugin.metrics.observe_errors.inc();
                    self.plugin.recent_errors.record_error("", "", &fault);
                    self.version.health.record_fault(Activity::Observe, None, &fault);
                    self.log(
                        "",
                        LogLevel::Warn,
                        &format!("no instance to observe: {fault}; another in {delay:?}"),
                    );
                    sleep(delay).await;
                    continue;
                }
            }
            failed_starts = 0;
            let continues = match self.next() {
                Some((position, batch)) => self.deliver(position, batch).await,
                None => self.wait().await,
            };
            if !continues {
                return;
            }
        }
    }

    /// Returns the next batch and the position of its subscription. The replays of all subscriptions come before new notifications of any.
    fn next(&self) -> Option<(usize, Vec<Notification>)> {
        let replaying = self.trackers.iter().position(DeliveryTracker::is_replaying).into_iter();
        let positions = replaying.chain(0..self.trackers.len());
        positions.filter_map(|position| Some((position, self.trackers[position].current()?))).next()
    }

    /// Waits for notifications. Returns `false` once all subscriptions have ended.
    async fn wait(&mut self) -> bool {
        let mut observer_subscriptions = self.version.observer_subscriptions.iter().zip(&self.ended);
        if observer_subscriptions.all(|(feed, ended)| *ended || feed.subscription.has_synced()) {
            if self.queue_missed_deletions() {
                return true;
            }
            self.version.dedicated_instance.set_caught_up(self.generation).await;
        }
        let observer_subscriptions = &self.version.observer_subscriptions;
        self.first = (self.first + 1) % observer_subscriptions.len();
        let order = (self.first..observer_subscriptions.len())
            .chain(0..self.first)
            .filter(|position| !self.ended[*position]);
        let batches: Vec<_> = order
            .map(|position| {
                let subscription = &observer_subscriptions[position].subscription;
                Box::pin(async move { (position, subscription.next_batch().await) })
            })
            .collect();
        if batches.is_empty() {
            return false;
        }
        let mut next_batch = select_all(batches);
        let retry = self.trackers.iter().filter_map(DeliveryTracker::deletion_retry_delay).min();
        // The time of the retry is set when the first deletion is parked, and stays whatever comes meanwhile.
        self.retry_at = retry.map(|delay| self.retry_at.unwrap_or_else(|| Instant::now() + delay));
        let retry_at = self.retry_at;
        let mut may_drop = self.may_drop_instance();
        let (position, batch) = loop {
            tokio::select! {
                // Rare events come first, so that a busy subscription cannot starve them. The idle timer comes last, because only an observer
                // without a batch is idle.
                biased;
                () = self.version.dedicated_instance.wait_until_discarded() => return true,
                () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => {
                    drop(next_batch);
                    self.retry_at = None;
                    self.trackers.iter_mut().for_each(DeliveryTracker::retry_deletions);
                    return true;
                }
                (next, _, _) = &mut next_batch => break next,
                () = sleep(INSTANCE_IDLE_TIMEOUT), if may_drop => {
                    self.version.dedicated_instance.drop_idle(self.generation).await;
                    may_drop = false;
                }
            }
        };
        let Some(batch) = batch else {
            self.ended[position] = true;
            let watch = Arc::clone(&observer_subscriptions[position].watch);
            let problem = "its informer has ended: the observer receives no further change of this watch until the plugin is reloaded";
            self.log(&watch, LogLevel::Error, problem);
            return true;
        };
        let keys: Vec<_> = batch.iter().map(|notification| notification.key().clone()).collect();
        // Pushed before the `await`, so that the batch is not lost if the task is aborted there.
        self.trackers[position].push(batch);
        // The plugin's computed indexes must contain a change before the observer receives it.
        self.version.views.index(&self.version.observer_subscriptions[position].watch, &keys).await;
        true
    }

    /// Queues the deletions of objects that only earlier versions' observers have received, and returns whether there are any. Called when
    /// this observer has received all present objects.
    fn queue_missed_deletions(&mut self) -> bool {
        let observer_subscriptions = &self.version.observer_subscriptions;
        let mut has_any = false;
        for inherited in std::mem::take(&mut self.inherited) {
            let positions = inherited.observer_subscriptions(observer_subscriptions);
            let Some(first) = positions.first() else { continue };
            let is_present = |key: &ObjectKey| {
                positions.iter().any(|position| {
                    self.trackers[*position].has_delivered(key)
                        || observer_subscriptions[*position].subscription.store().get(key).is_some()
                })
            };
            let mut deleted: Vec<_> =
                inherited.objects.into_values().filter(|last| !is_present(last.key())).collect();
            deleted.sort_unstable_by(|left, right| left.key().cmp(right.key()));
            has_any |= !deleted.is_empty();
            for batch in deleted.chunks(BATCH) {
                self.trackers[*first].push(batch.iter().cloned().map(Notification::tombstone).collect());
            }
        }
        has_any
    }

    /// Whether an idle instance may be dropped. That of a plugin that declares `stateful` must keep its memory; and the replay of very many
    /// objects would cost more than the instance's memory.
    fn may_drop_instance(&self) -> bool {
        let objects: usize = self.trackers.iter().map(DeliveryTracker::delivered_count).sum();
        !self.version.descriptor.stateful && objects <= MAX_REPLAY
    }

    /// Delivers one batch. Returns `false` if the version is not the running one any more.
    async fn deliver(&mut self, position: usize, batch: Vec<Notification>) -> bool {
        let watch = Arc::clone(&self.version.observer_subscriptions[position].watch);
        let count = batch.len();
        let only = if let [only] = &batch[..] { Some(only.key().clone()) } else { None };
        let observation = |notification| Observation { watch: Arc::clone(&watch), notification };
        let observations: Vec<_> = batch.into_iter().map(observation).collect();
        self.plugin.panics.inject_test_panic("observer");
        let (outcome, permit) = loop {
            // While the plugin backs off or lacks a permission, the batch waits.
            self.version.health.wait_until_allowed().await;
            // The read lock is held during the call, so that a swap waits for its end.
            let running = self.running.read().await;
            if !running.stable.as_ref().is_some_and(|version| Arc::ptr_eq(version, &self.version)) {
                return false;
            }
            if let Some(permit) = self.version.health.try_acquire() {
                break (self.version.dedicated_instance.observe(self.generation, observations).await, permit);
            }
        };
        match &outcome {
            Some(Err(Failure::Fault(fault))) => {
                permit.failed(Activity::Observe, only.as_ref().map(|object| object as &dyn DynHash), fault);
            }
            Some(_) => permit.succeeded(Activity::Observe),
            None => drop(permit),
        }
        match outcome {
            Some(Ok(())) => {
                self.plugin.recent_errors.record_success();
                self.plugin.metrics.observed.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
                let view = self.version.views.by_name.get(&watch);
                self.trackers[position].succeeded(|object| match view {
                    Some(view) => view.cache.shared_copy(object),
                    None => object.fresh_view(),
                });
            }
            Some(Err(failure)) => {
                let key = only.as_ref().map_or("", ObjectKey::as_str);
                self.plugin.recent_errors.record_error(&watch, key, &failure);
                self.failed(position, &watch, count, &failure).await;
            }
            // The instance was discarded; the next one receives everything in a replay.
            None => {}
        }
        true
    }

    async fn failed(&mut self, position: usize, watch: &str, count: usize, failure: &Failure) {
        self.plugin.metrics.observe_errors.inc();
        let is_permanent = matches!(failure, Failure::Terminal(_));
        match self.trackers[position].failed(is_permanent) {
            Some(FailureOutcome::Retry { failures }) => {
                let delay = backoff(failures);
                let retry = format!("{count} notifications are delivered again in {delay:?}");
                self.log_failure(watch, failure, &retry);
                sleep(delay).await;
            }
            Some(FailureOutcome::Split) => {
                let retry = format!("its {count} notifications are delivered one by one");
                self.log_failure(watch, failure, &retry);
            }
            Some(FailureOutcome::Parked(notification)) => self.park(watch, &notification, failure),
            None => {}
        }
    }

    /// Reports in the metrics, the log and an Event that an object was parked.
    fn park(&self, watch: &str, notification: &Notification, failure: &Failure) {
        self.plugin.metrics.parked.inc();
        let key = notification.key();
        let message = format!(
            "observe failed: {failure}; {key} is parked until it changes; a deletion is retried after some minutes"
        );
        self.log(watch, LogLevel::Error, &message);
        let recorded = self.plugin.events.record(NewEvent {
            plugin: self.plugin.name.to_shared(),
            regarding: notification.object().clone(),
            warning: true,
            reason: "ObserveFailed".to_owned(),
            action: "Observe".to_owned(),
            note: short_note(&format!(
                "The plugin's observer fails at this object, which is parked until it changes: {failure}"
            )),
        });
        if !recorded {
            self.plugin.metrics.events_dropped.inc();
        }
    }

    fn log_failure(&self, watch: &str, failure: &Failure, retry: &str) {
        let text = format_args!("observe failed: {failure}");
        self.plugin.log.failure(LogLevel::Warn, text, &retry, &[("watch", &watch)]);
    }

    fn log(&self, watch: &str, level: LogLevel, message: &str) {
        self.plugin.log.host(level, format_args!("{message}"), &[("watch", &watch)]);
    }
}

#[cfg(test)]
mod tests;
