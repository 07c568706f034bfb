//! What becomes of the pending keys when a queue is replaced: the next queue imports them, or they are discarded.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use pilothouse_model::hash::HashMap;
use tokio::time::Instant;

use super::super::{KeyPayload, PendingItem, Priority};
use super::{Entry, State};

/// The entries that [`State::discard`] removed.
pub(in crate::work_queue) struct DiscardedEntries<K, N> {
    _entries: HashMap<K, Entry<N>>,
    _ready: [BTreeMap<u64, K>; 2],
    _delayed: BTreeMap<(Instant, u64), K>,
}

impl<K: Clone + Eq + Hash, N: KeyPayload> State<K, N> {
    /// Returns the pending keys: ready keys, then delayed keys, each in order, then the keys that workers hold.
    pub(in crate::work_queue) fn export(&self, now: Instant) -> Vec<PendingItem<K>> {
        let mut items = Vec::with_capacity(self.entries.len());
        for priority in [Priority::Normal, Priority::Low] {
            for key in self.ready[priority as usize].values() {
                items.push(PendingItem::new(key, priority, Duration::ZERO, self.attempts(key)));
            }
        }
        for ((at, _), key) in &self.delayed {
            let Some(entry) = self.entries.get(key).filter(|entry| entry.held_since.is_none()) else {
                continue;
            };
            let priority = entry.delayed.map_or(Priority::Normal, |delayed| delayed.priority);
            items.push(PendingItem::new(key, priority, at.saturating_duration_since(now), entry.failures));
        }
        let mut held: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.held_since.is_some()).collect();
        held.sort_by_key(|(_, entry)| entry.held_since);
        for (key, entry) in held {
            let priority = entry.dirty.map_or(Priority::Normal, |(_, priority)| priority);
            items.push(PendingItem::new(key, priority, Duration::ZERO, entry.failures));
        }
        items
    }

    /// Adds the keys that another queue exported.
    pub(in crate::work_queue) fn import(&mut self, items: Vec<PendingItem<K>>, now: Instant) {
        for item in items {
            if self.add_at(item.key.clone(), N::default(), item.priority, now + item.delay, now)
                && let Some(entry) = self.entries.get_mut(&item.key)
            {
                let was_backing_off = entry.is_backing_off();
                entry.failures = entry.failures.max(item.attempts);
                self.backing_off += usize::from(entry.is_backing_off() && !was_backing_off);
            }
        }
    }

    /// Removes all pending keys except those that workers hold, and returns the removed entries, so that the caller drops them
    /// after releasing the lock.
    pub(in crate::work_queue) fn discard(&mut self) -> DiscardedEntries<K, N> {
        let held = |entry: &Entry<N>| Entry { held_since: entry.held_since, ..Entry::new() };
        let held_entries = self.entries.iter().filter(|(_, entry)| entry.held_since.is_some());
        let held_entries: HashMap<K, Entry<N>> =
            held_entries.map(|(key, entry)| (key.clone(), held(entry))).collect();
        self.backing_off = 0;
        DiscardedEntries {
            _entries: std::mem::replace(&mut self.entries, held_entries),
            _ready: std::mem::take(&mut self.ready),
            _delayed: std::mem::take(&mut self.delayed),
        }
    }
}
