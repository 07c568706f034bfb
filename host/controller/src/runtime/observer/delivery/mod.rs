//! Tracks what an observer has received from one subscription: what comes next, and what a new instance must receive again.

use std::time::Duration;

use pilothouse_informer::handler::{FailureOutcome, MAX_ATTEMPTS, Redelivery};
use pilothouse_model::hash::{HashMap, HashSet};
use pilothouse_model::{Notification, Object, ObjectKey};

/// The maximum number of notifications in a batch of a replay, the same as in a batch of a subscription.
const BATCH: usize = 256;

/// The delivery state of one subscription. Pure: the caller delivers the [`current`](Self::current) batch and reports the result.
///
/// A new instance has received nothing. So it first receives the last delivered state of every object (the replay), then the batch that was
/// being delivered, then new batches. An instance therefore never sees an older state after a newer one, and receives the deletion of every
/// object that it has seen.
#[derive(Debug, Default)]
pub(super) struct DeliveryTracker {
    /// The last state of each object that was delivered successfully, without deleted objects.
    delivered: HashMap<ObjectKey, Object>,
    /// The batches of the subscription, delivered after the replay.
    queued_batches: Redelivery,
    /// What the current instance must receive first. Failures are counted across instances.
    replay: Vec<ReplayBatch>,
    /// The current batch of the replay.
    position: usize,
    /// Objects at which the replay failed with a terminal error, with the resource version that was delivered.
    parked: HashMap<ObjectKey, String>,
}

#[derive(Debug)]
struct ReplayBatch {
    batch: Vec<Notification>,
    failures: u32,
}

impl DeliveryTracker {
    /// Appends a batch of the subscription. Leaves out objects that the replay parked and that have not changed since.
    pub(super) fn push(&mut self, mut batch: Vec<Notification>) {
        batch.retain(|notification| {
            let Some(version) = self.parked.get(notification.key()) else { return true };
            let is_deleted = matches!(notification, Notification::Deleted { .. });
            let has_changed = is_deleted || notification.object().resource_version() != version;
            if has_changed {
                self.parked.remove(notification.key());
            }
            has_changed
        });
        self.queued_batches.push(batch);
    }

    /// The number of objects that a new instance would have to receive in a replay.
    pub(super) fn delivered_count(&self) -> usize {
        self.delivered.len()
    }

    /// Whether this object was delivered successfully, and its deletion was not.
    pub(super) fn has_delivered(&self, key: &ObjectKey) -> bool {
        self.delivered.contains_key(key)
    }

    /// Returns the objects that were delivered successfully and whose deletion was not.
    pub(super) fn into_delivered(mut self) -> HashMap<ObjectKey, Object> {
        for deletion in self.queued_batches.parked_deletions() {
            self.delivered.insert(deletion.key().clone(), deletion.object().clone());
        }
        self.delivered
    }

    /// Returns the delay after which parked deletions are to be retried; `None` while there are none.
    pub(super) fn deletion_retry_delay(&self) -> Option<Duration> {
        self.queued_batches.deletion_retry_delay()
    }

    /// Queues the parked deletions for delivery again.
    pub(super) fn retry_deletions(&mut self) {
        self.queued_batches.retry_deletions();
    }

    /// Starts the replay for a new instance.
    pub(super) fn restart(&mut self) {
        if !self.is_replaying() {
            let mut delivered: Vec<_> = self.delivered.values().cloned().collect();
            delivered.sort_unstable_by(|a, b| a.key().cmp(b.key()));
            let added = |object| Notification::Added { object, initial: true };
            let all: Vec<_> = delivered.into_iter().map(added).collect();
            let batches = all.chunks(BATCH).map(|batch| ReplayBatch { batch: batch.to_vec(), failures: 0 });
            self.replay = batches.collect();
        }
        self.position = 0;
    }

    /// Whether the current instance has not received the whole replay yet.
    pub(super) fn is_replaying(&self) -> bool {
        self.position < self.replay.len()
    }

    /// Returns the batch that is to be delivered now.
    pub(super) fn current(&self) -> Option<Vec<Notification>> {
        match self.replay.get(self.position) {
            // Views of their own: the copies that are kept do not unpack what the observer reads.
            Some(replay) => Some(replay.batch.iter().map(fresh_addition).collect()),
            None => self.queued_batches.current().map(|batch| self.with_additions(batch)),
        }
    }

    /// Replaces the update of an object that was never delivered by its addition.
    fn with_additions(&self, batch: &[Notification]) -> Vec<Notification> {
        let mut earlier = HashSet::default();
        let mut notifications = Vec::with_capacity(batch.len());
        for notification in batch {
            let is_new =
                !self.delivered.contains_key(notification.key()) && earlier.insert(notification.key());
            notifications.push(match notification {
                Notification::Updated { new, .. } if is_new => {
                    Notification::Added { object: new.clone(), initial: false }
                }
                other => other.clone(),
            });
        }
        notifications
    }

    /// Records that the observer handled the current batch. `copy` returns the copy of a delivered object that is kept.
    pub(super) fn succeeded(&mut self, copy: impl Fn(&Object) -> Object) {
        if self.is_replaying() {
            self.position += 1;
            return self.end_replay();
        }
        for notification in self.queued_batches.current().unwrap_or_default() {
            match notification {
                Notification::Deleted { last, .. } => drop(self.delivered.remove(last.key())),
                Notification::Added { object, .. } | Notification::Updated { new: object, .. } => {
                    self.delivered.insert(object.key().clone(), copy(object));
                }
            }
        }
        self.queued_batches.succeeded();
    }

    /// Records that the observer failed at the current batch, and returns what happens to that. After a permanent failure, the same batch
    /// is not tried again.
    pub(super) fn failed(&mut self, is_permanent: bool) -> Option<FailureOutcome> {
        if self.is_replaying() {
            return self.failed_at_replay(is_permanent);
        }
        loop {
            let after = self.queued_batches.failed()?;
            match &after {
                FailureOutcome::Retry { .. } if is_permanent => continue,
                FailureOutcome::Parked(Notification::Deleted { last, .. }) => {
                    // A deleted object must not be replayed, even though its deletion was not delivered.
                    self.delivered.remove(last.key());
                }
                _ => {}
            }
            return Some(after);
        }
    }

    fn failed_at_replay(&mut self, is_permanent: bool) -> Option<FailureOutcome> {
        let replay = self.replay.get_mut(self.position)?;
        replay.failures += 1;
        if replay.failures < MAX_ATTEMPTS && !is_permanent {
            return Some(FailureOutcome::Retry { failures: replay.failures });
        }
        let mut batch = self.replay.remove(self.position).batch;
        if batch.len() > 1 {
            let single = |notification| ReplayBatch { batch: vec![notification], failures: 0 };
            self.replay.splice(self.position..self.position, batch.into_iter().map(single));
            return Some(FailureOutcome::Split);
        }
        let notification = batch.pop()?;
        let (key, version) = (notification.key().clone(), notification.object().resource_version());
        // A resync that is already pending is not a change of the object.
        self.queued_batches.discard_version(&key, version);
        self.parked.insert(key.clone(), version.to_owned());
        self.delivered.remove(&key);
        self.end_replay();
        Some(FailureOutcome::Parked(notification))
    }

    fn end_replay(&mut self) {
        if !self.is_replaying() {
            self.replay.clear();
            self.position = 0;
        }
    }
}

/// Returns a notification of a replay with a new view of its object.
fn fresh_addition(notification: &Notification) -> Notification {
    match notification {
        Notification::Added { object, initial } => {
            Notification::Added { object: object.fresh_view(), initial: *initial }
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
