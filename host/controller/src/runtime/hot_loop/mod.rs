//! Finds plugins whose writes trigger their own reconciles again and again, reports them, and delays the keys in question.
//!
//! A plugin that does not write costs nothing here, and an event of one that does costs a look-up. The state is bounded: it consists of the
//! keys whose reconciles wrote in the last minute.

mod authors;
mod detector;
mod difference;
mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_model::Notification;
use pilothouse_model::hash::HashMap;
use pilothouse_plugin::{HostMemory, Reason};
use tokio::time::Instant;

pub(crate) use authors::Authors;
pub(crate) use detector::HotLoop;
use detector::LoopDetector;
pub(crate) use report::report;

use crate::client::WriteOutcome;
use crate::runtime::queue::ReconcileKey;

/// The maximum number of keys that are tracked.
const MAX_KEYS: usize = 2048;

/// The loop that a key is in.
pub(crate) struct HotLoopStatus {
    /// A description for the plugin's status.
    pub(crate) text: String,
    /// The remaining delay of the key's next round.
    pub(crate) next_round_in: Duration,
}

/// The loop detection for one plugin. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HotLoops {
    plugin: Arc<str>,
    authors: Authors,
    /// The number of tracked keys, to be read without a lock.
    count: Arc<AtomicUsize>,
    keys: Arc<Mutex<HashMap<ReconcileKey, TrackedKey>>>,
    memory: HostMemory,
}

struct TrackedKey {
    detector: LoopDetector,
    /// The text for the plugin's status, while the key is in a loop.
    status_text: Option<String>,
}

impl HotLoops {
    pub(crate) fn new(plugin: Arc<str>, authors: Authors) -> Self {
        let memory = HostMemory::default();
        Self { plugin, authors, count: Arc::default(), keys: Arc::default(), memory }
    }

    /// Charges the remembered states of objects to this account.
    pub(crate) fn charged_to(self, memory: &HostMemory) -> Self {
        Self { memory: memory.clone(), ..self }
    }

    /// Records a write that the API server has answered. Must be called before the guest gets the response.
    pub(crate) fn record_write(&self, item: Option<&ReconcileKey>, written: &WriteOutcome) {
        self.authors.record_write(&self.plugin, written);
        let Some(item) = item else { return };
        let mut keys = self.keys.lock();
        let now = Instant::now();
        if keys.len() >= MAX_KEYS && !keys.contains_key(item) {
            // `forget_expired` makes room. A search for expired keys here, at each write, would cost more than the write.
            return;
        }
        let new = || TrackedKey { detector: LoopDetector::new(now, self.memory.clone()), status_text: None };
        let version = match written {
            WriteOutcome::Object(_, object) | WriteOutcome::Finalized(_, object) => object.resource_version(),
            WriteOutcome::Deleted(..) | WriteOutcome::Response(..) => "",
        };
        keys.entry(item.clone()).or_insert_with(new).detector.record_write(written.key(), version);
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    /// Records a notification that is about to queue the key.
    pub(crate) fn record_event(&self, item: &ReconcileKey, notification: &Notification) {
        if self.is_idle() {
            return;
        }
        if let Some(tracked) = self.keys.lock().get_mut(item) {
            tracked.detector.record_event(self.authors.version_of(notification), notification);
        }
    }

    /// Called when a worker has taken the key. Returns the remaining delay if the reconcile would be another round of a loop.
    pub(crate) fn begin(&self, item: &ReconcileKey, reasons: &[Reason]) -> Option<Duration> {
        if self.is_idle() {
            return None;
        }
        let is_event =
            |reason: &Reason| matches!(reason, Reason::Created | Reason::Updated | Reason::Deleted);
        let has_other_cause = !reasons.iter().all(is_event);
        let mut keys = self.keys.lock();
        let tracked = keys.get_mut(item)?;
        tracked.detector.begin(&self.plugin, &self.authors, has_other_cause, Instant::now())
    }

    /// Called when the reconcile of the key has ended. Returns the loop if the reconcile was a round of one.
    pub(crate) fn end(&self, item: &ReconcileKey) -> Option<HotLoop> {
        if self.is_idle() {
            return None;
        }
        let mut keys = self.keys.lock();
        let tracked = keys.get_mut(item)?;
        let found = tracked.detector.end(&self.plugin, &self.authors, Instant::now());
        match &found {
            Some(found) => tracked.status_text = Some(found.to_string()),
            None if !tracked.detector.is_in_loop() => tracked.status_text = None,
            None => {}
        }
        found
    }

    /// Returns the loop that a key is in, or `None` if it is in none.
    pub(crate) fn status(&self, item: &ReconcileKey) -> Option<HotLoopStatus> {
        if self.is_idle() {
            return None;
        }
        let keys = self.keys.lock();
        let tracked = keys.get(item)?;
        let next_round_in = tracked.detector.remaining_delay(Instant::now());
        Some(HotLoopStatus { text: tracked.status_text.clone()?, next_round_in })
    }

    /// Describes one of the current loops, for the plugin's status.
    pub(crate) fn status_text(&self) -> Option<String> {
        if self.is_idle() {
            return None;
        }
        let now = Instant::now();
        let keys = self.keys.lock();
        let current = keys.values().filter(|tracked| !tracked.detector.is_expired(now));
        current.filter_map(|tracked| tracked.status_text.clone()).min()
    }

    /// Forgets the keys whose last round is long ago.
    pub(crate) fn forget_expired(&self) {
        let now = Instant::now();
        self.retain(|tracked| !tracked.detector.is_expired(now));
    }

    /// Forgets all keys, because a new version may behave differently.
    pub(crate) fn forget_all(&self) {
        self.retain(|_| false);
    }

    fn retain(&self, is_kept: impl Fn(&TrackedKey) -> bool) {
        if self.is_idle() {
            return;
        }
        let mut keys = self.keys.lock();
        keys.retain(|_, tracked| is_kept(tracked));
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}
