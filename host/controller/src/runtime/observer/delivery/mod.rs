//! What an observer is told next about one subscription, and what its instances have to be told again.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use pilothouse_informer::handler::{ATTEMPTS, AfterFailure, Redelivery};
use pilothouse_model::{Notification, Object, ObjectKey};

/// Notifications in a batch of a replay, as many as a subscription gives at once.
const BATCH: usize = 256;

/// Pure: a driver delivers [`current`](Self::current) and says how it went.
///
/// A new instance knows nothing, so everything that was ever told with success comes first, as it was told last; then
/// what was being delivered, then what is new. So an instance never sees an older state after a newer one, and no
/// deletion is dropped for an object that it knows.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The state of each object that was last told with success.
    told: HashMap<ObjectKey, Object>,
    /// What comes after the replay.
    fresh: Redelivery,
    /// What the present instance has to be told before; failures are counted over all instances that get it.
    replay: Vec<Replay>,
    position: usize,
    /// Objects that broke an instance in a replay, with the resource version that did.
    broken: HashMap<ObjectKey, String>,
}

#[derive(Debug)]
struct Replay {
    batch: Vec<Notification>,
    failures: u32,
}

impl Ledger {
    /// Appends what a subscription brought.
    pub(super) fn push(&mut self, mut batch: Vec<Notification>) {
        batch.retain(|notification| {
            let Some(version) = self.broken.get(notification.key()) else { return true };
            let is_gone = matches!(notification, Notification::Deleted { .. });
            let changed = is_gone || notification.object().resource_version() != version;
            if changed {
                self.broken.remove(notification.key());
            }
            changed
        });
        self.fresh.push(batch);
    }

    /// How many objects a new instance would have to be told of.
    pub(super) fn known(&self) -> usize {
        self.told.len()
    }

    /// Whether an observer was told of this object with success, and not of its end.
    pub(super) fn knows(&self, key: &ObjectKey) -> bool {
        self.told.contains_key(key)
    }

    /// The objects that an observer was told of with success, and not of their end.
    pub(super) fn into_told(mut self) -> HashMap<ObjectKey, Object> {
        for deletion in self.fresh.parked_deletions() {
            self.told.insert(deletion.key().clone(), deletion.object().clone());
        }
        self.told
    }

    /// After how long deletions that the observer fails at are to be tried again; `None` while there are none.
    pub(super) fn deletion_retry(&self) -> Option<Duration> {
        self.fresh.deletion_retry()
    }

    /// Has them delivered again.
    pub(super) fn retry_deletions(&mut self) {
        self.fresh.retry_deletions();
    }

    /// There is a new instance.
    pub(super) fn restart(&mut self) {
        if !self.is_replaying() {
            let mut known: Vec<_> = self.told.values().cloned().collect();
            known.sort_unstable_by(|a, b| a.key().cmp(b.key()));
            let added = |object| Notification::Added { object, initial: true };
            let all: Vec<_> = known.into_iter().map(added).collect();
            let batches = all.chunks(BATCH).map(|batch| Replay { batch: batch.to_vec(), failures: 0 });
            self.replay = batches.collect();
        }
        self.position = 0;
    }

    /// Whether the present instance has not been told all yet that the one before knew.
    pub(super) fn is_replaying(&self) -> bool {
        self.position < self.replay.len()
    }

    /// What is to be delivered now.
    pub(super) fn current(&self) -> Option<Vec<Notification>> {
        match self.replay.get(self.position) {
            Some(replay) => Some(replay.batch.clone()),
            None => self.fresh.current().map(|batch| self.as_known(batch)),
        }
    }

    /// An object that the observer was never told of with success is new to it, also when it changed meanwhile.
    fn as_known(&self, batch: &[Notification]) -> Vec<Notification> {
        let mut here = HashSet::new();
        let mut told = Vec::with_capacity(batch.len());
        for notification in batch {
            let is_new = !self.told.contains_key(notification.key()) && here.insert(notification.key());
            told.push(match notification {
                Notification::Updated { new, .. } if is_new => {
                    Notification::Added { object: new.clone(), initial: false }
                }
                other => other.clone(),
            });
        }
        told
    }

    /// The current batch was handled.
    pub(super) fn succeeded(&mut self) {
        if self.is_replaying() {
            self.position += 1;
            return self.end_replay();
        }
        for notification in self.fresh.current().unwrap_or_default() {
            match notification {
                Notification::Deleted { last, .. } => drop(self.told.remove(last.key())),
                Notification::Added { object, .. } | Notification::Updated { new: object, .. } => {
                    self.told.insert(object.key().clone(), object.clone());
                }
            }
        }
        self.fresh.succeeded();
    }

    /// The observer failed at the current batch; `for_good`, and trying the same again cannot help.
    pub(super) fn failed(&mut self, for_good: bool) -> Option<AfterFailure> {
        if self.is_replaying() {
            return self.failed_at_replay(for_good);
        }
        loop {
            let after = self.fresh.failed()?;
            match &after {
                AfterFailure::Again { .. } if for_good => continue,
                AfterFailure::Parked(Notification::Deleted { last, .. }) => {
                    // It is gone, whatever the observer made of that.
                    self.told.remove(last.key());
                }
                _ => {}
            }
            return Some(after);
        }
    }

    fn failed_at_replay(&mut self, for_good: bool) -> Option<AfterFailure> {
        let replay = self.replay.get_mut(self.position)?;
        replay.failures += 1;
        if replay.failures < ATTEMPTS && !for_good {
            return Some(AfterFailure::Again { failures: replay.failures });
        }
        let mut batch = self.replay.remove(self.position).batch;
        if batch.len() > 1 {
            let single = |notification| Replay { batch: vec![notification], failures: 0 };
            self.replay.splice(self.position..self.position, batch.into_iter().map(single));
            return Some(AfterFailure::Split);
        }
        let notification = batch.pop()?;
        let (key, version) = (notification.key().clone(), notification.object().resource_version());
        // A resync that came meanwhile is no change either.
        self.fresh.leave_out(&key, version);
        self.broken.insert(key.clone(), version.to_owned());
        self.told.remove(&key);
        self.end_replay();
        Some(AfterFailure::Parked(notification))
    }

    fn end_replay(&mut self) {
        if !self.is_replaying() {
            self.replay.clear();
            self.position = 0;
        }
    }
}

#[cfg(test)]
mod tests;
