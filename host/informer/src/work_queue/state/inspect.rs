//! What people see of the queue: its gauges, and the pending keys with what they wait for.

use std::hash::Hash;

use tokio::time::Instant;

use super::super::{KeyPayload, KeyState, KeyStatus, Priority, QueueSnapshot};
#[cfg(test)]
use super::Entry;
use super::State;

impl<K: Clone + Eq + Hash, N: KeyPayload> State<K, N> {
    /// Returns the queue's gauges, without looking at any entry.
    pub(in crate::work_queue) fn snapshot(&self, now: Instant) -> QueueSnapshot {
        QueueSnapshot {
            depth: self.depth(),
            low_priority: self.ready[Priority::Low as usize].len(),
            delayed: self.delayed.len(),
            backing_off: self.backing_off,
            processing: self.held.len(),
            unfinished_work: self.held.durations(now).sum(),
            longest_running: self.held.durations(now).next().unwrap_or_default(),
        }
    }

    /// Returns what [`snapshot`](Self::snapshot) returns, counted by looking at all entries.
    #[cfg(test)]
    pub(in crate::work_queue) fn counted_snapshot(&self, now: Instant) -> QueueSnapshot {
        let count = |is_counted: fn(&Entry<N>) -> bool| {
            self.entries.values().filter(|entry| is_counted(entry)).count()
        };
        let held = self.entries.values().filter_map(|entry| entry.held_since);
        let held: Vec<_> = held.map(|since| now.saturating_duration_since(since)).collect();
        QueueSnapshot {
            depth: count(|entry| entry.ready.is_some()),
            low_priority: count(|entry| entry.ready.is_some_and(|ready| ready.priority == Priority::Low)),
            delayed: count(|entry| entry.delayed.is_some()),
            backing_off: count(Entry::is_backing_off),
            processing: held.len(),
            unfinished_work: held.iter().sum(),
            longest_running: held.into_iter().max().unwrap_or_default(),
        }
    }

    /// Whether a key is pending, or has failed since it was last forgotten.
    pub(in crate::work_queue) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns what a key waits for; `None` if it is not pending.
    pub(in crate::work_queue) fn status(&self, key: &K, now: Instant) -> Option<KeyStatus<K>> {
        let entry = self.entries.get(key)?;
        let state = match (entry.held_since, entry.ready) {
            (Some(since), _) => KeyState::Processing(now.saturating_duration_since(since)),
            (None, Some(ready)) => KeyState::Ready(now.saturating_duration_since(ready.since)),
            (None, None) => KeyState::Delayed(entry.delayed?.at.saturating_duration_since(now)),
        };
        Some(KeyStatus { key: key.clone(), state, attempts: entry.failures })
    }

    /// Returns up to `limit` pending keys: those that workers hold, those that wait for a retry, ready keys, and the other delayed keys.
    pub(in crate::work_queue) fn list(&self, limit: usize, now: Instant) -> Vec<KeyStatus<K>> {
        let mut held: Vec<(Instant, &K)> = Vec::new();
        for (key, entry) in &self.entries {
            held.extend(entry.held_since.map(|since| (since, key)));
        }
        held.sort_by_key(|(since, _)| *since);
        let held = held.into_iter().map(|(since, key)| {
            let held_for = now.saturating_duration_since(since);
            (key, KeyState::Processing(held_for))
        });
        let delayed = |has_failed| self.delayed_keys(has_failed, now);
        held.chain(delayed(true))
            .chain(self.ready_keys(now))
            .chain(delayed(false))
            .take(limit)
            .map(|(key, state)| KeyStatus { key: key.clone(), state, attempts: self.attempts(key) })
            .collect()
    }

    fn ready_keys(&self, now: Instant) -> impl Iterator<Item = (&K, KeyState)> {
        let [low, normal] = &self.ready;
        normal.values().chain(low.values()).filter_map(move |key| {
            let since = self.entries.get(key)?.ready?.since;
            Some((key, KeyState::Ready(now.saturating_duration_since(since))))
        })
    }

    /// Returns the delayed keys that no worker holds, and either have failed or have not.
    fn delayed_keys(&self, has_failed: bool, now: Instant) -> impl Iterator<Item = (&K, KeyState)> {
        self.delayed.iter().filter_map(move |((at, _), key)| {
            let entry = self.entries.get(key)?;
            let is_listed = entry.held_since.is_none() && (entry.failures > 0) == has_failed;
            is_listed.then(|| (key, KeyState::Delayed(at.saturating_duration_since(now))))
        })
    }

    #[cfg(test)]
    pub(in crate::work_queue) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    #[cfg(test)]
    pub(in crate::work_queue) fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}
