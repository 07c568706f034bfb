//! The queue's state, without waiting: the caller passes the current time to every method.

mod entry;
mod held_times;
mod inspect;
mod transfer;

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::hash::HashMap;
use tokio::time::Instant;

use super::{KeyPayload, Priority, QueueMetrics, RateLimit};
use entry::{Delayed, Entry, Ready};
use held_times::HeldTimes;

/// The table is shrunk once the keys of a large list are gone, but not below this number of entries.
const MIN_SHRINK_ENTRIES: usize = 32;
/// How many times larger than its content the table may be before it is shrunk.
const MAX_SPARE_FACTOR: usize = 8;

/// One pop in this many takes the oldest low-priority key while keys of both priorities are ready.
const LOW_PRIORITY_TURN: u32 = 10;

/// Whether the queue accepts and hands out keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Open,
    /// No new keys; ready keys are still handed out.
    Draining,
    /// No new keys, and no key is handed out.
    Closed,
}

/// A key that was handed out.
pub(super) struct PoppedItem<K, N> {
    pub(super) key: K,
    pub(super) payload: N,
    pub(super) priority: Priority,
    pub(super) attempts: u32,
    pub(super) ready_for: Duration,
}

/// The state behind the queue's lock.
///
/// Invariants: `held` has the time of each key that a worker holds. `backing_off` is the number of entries that
/// [are backing off](Entry::is_backing_off). So [`State::snapshot`], which a scrape calls for each queue, looks at no entry.
pub(super) struct State<K, N> {
    entries: HashMap<K, Entry<N>>,
    /// Ready keys in order of arrival, one map for each priority.
    ready: [BTreeMap<u64, K>; 2],
    delayed: BTreeMap<(Instant, u64), K>,
    next_position: u64,
    /// Pops since a low-priority key was last taken, while one was ready.
    passed_over: u32,
    held: HeldTimes,
    backing_off: usize,
    mode: Mode,
    limit: RateLimit,
    metrics: Arc<dyn QueueMetrics>,
}

impl<K: Clone + Eq + Hash, N: KeyPayload> State<K, N> {
    pub(super) fn new(limit: RateLimit, metrics: Arc<dyn QueueMetrics>) -> Self {
        Self {
            entries: HashMap::default(),
            ready: [BTreeMap::new(), BTreeMap::new()],
            delayed: BTreeMap::new(),
            next_position: 0,
            passed_over: 0,
            held: HeldTimes::default(),
            backing_off: 0,
            mode: Mode::Open,
            limit,
            metrics,
        }
    }

    /// Makes a key ready. Returns whether the key was accepted.
    pub(super) fn add(&mut self, key: K, payload: N, priority: Priority, now: Instant) -> bool {
        if self.mode != Mode::Open {
            return false;
        }
        self.make_ready(key, payload, priority, now);
        true
    }

    /// Makes a key ready at `at`. Returns whether the key was accepted.
    pub(super) fn add_at(
        &mut self,
        key: K,
        payload: N,
        priority: Priority,
        at: Instant,
        now: Instant,
    ) -> bool {
        if at <= now {
            return self.add(key, payload, priority, now);
        }
        if self.mode != Mode::Open {
            return false;
        }
        let entry = self.entries.entry(key.clone()).or_insert_with(Entry::new);
        entry.payload.merge(payload);
        if entry.ready.is_some() || entry.dirty.is_some() {
            return true;
        }
        let mut delayed = Delayed { at, position: self.next_position, priority };
        if let Some(earlier) = entry.delayed {
            self.delayed.remove(&(earlier.at, earlier.position));
            delayed.priority = delayed.priority.max(earlier.priority);
            if earlier.at <= at {
                (delayed.at, delayed.position) = (earlier.at, earlier.position);
            }
        } else {
            self.backing_off += usize::from(entry.failures > 0);
        }
        self.next_position += 1;
        entry.delayed = Some(delayed);
        self.delayed.insert((delayed.at, delayed.position), key);
        true
    }

    /// Delays a key according to its retries. Returns the delay, or `None` if the key was rejected.
    pub(super) fn add_rate_limited(
        &mut self,
        key: K,
        payload: N,
        priority: Priority,
        now: Instant,
    ) -> Option<Duration> {
        if self.mode != Mode::Open {
            return None;
        }
        self.metrics.retried();
        let entry = self.entries.entry(key.clone()).or_insert_with(Entry::new);
        let per_key = self.limit.backoff.delay(entry.failures);
        self.backing_off += usize::from(entry.failures == 0 && entry.delayed.is_some());
        entry.failures = entry.failures.saturating_add(1);
        let overall = self.limit.overall.as_mut().map_or(Duration::ZERO, |bucket| bucket.reserve(now));
        let wait = per_key.max(overall);
        self.add_at(key, payload, priority, now + wait, now);
        Some(wait)
    }

    pub(super) fn forget(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        self.backing_off -= usize::from(entry.is_backing_off());
        entry.failures = 0;
        if entry.is_idle() {
            self.remove(key);
        }
    }

    /// Resets the retry counts of all keys, and makes the keys ready that wait for a retry or whose payload ends its delay, in the order in
    /// which they would have been due. Other delays are kept.
    pub(super) fn reset_retries(&mut self, now: Instant) {
        let is_over = |entry: &Entry<N>| entry.failures > 0 || entry.payload.ends_with_reset();
        let waits = |key: &&K| self.entries.get(*key).is_some_and(is_over);
        let waiting: Vec<K> = self.delayed.values().filter(waits).cloned().collect();
        self.entries.values_mut().for_each(|entry| entry.failures = 0);
        self.backing_off = 0;
        if self.mode == Mode::Open {
            for key in waiting {
                self.make_ready(key, N::default(), Priority::Low, now);
            }
        }
        self.entries.retain(|_, entry| !entry.is_idle());
    }

    pub(super) fn attempts(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// Hands out the next key. Returns `None` if no key is ready.
    pub(super) fn pop(&mut self, now: Instant) -> Option<PoppedItem<K, N>> {
        if self.mode == Mode::Closed {
            return None;
        }
        self.promote_due(now);
        let priority = self.next_priority()?;
        let (_, key) = self.ready[priority as usize].pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        let ready = entry.ready.take()?;
        entry.held_since = Some(now);
        self.held.insert(now);
        let ready_for = now.saturating_duration_since(ready.since);
        self.metrics.waited(ready_for);
        Some(PoppedItem {
            ready_for,
            attempts: entry.failures,
            payload: std::mem::take(&mut entry.payload),
            key,
            priority,
        })
    }

    /// Releases a key and, if `forget` is set, resets its retry count. The key becomes ready if it was added meanwhile.
    pub(super) fn done(&mut self, key: &K, forget: bool, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(since) = entry.held_since.take() else { return };
        self.held.remove(since);
        if forget {
            self.backing_off -= usize::from(entry.is_backing_off());
            entry.failures = 0;
        }
        self.metrics.worked(now.saturating_duration_since(since));
        if let Some((since, priority)) = entry.dirty.take() {
            self.insert_ready(key.clone(), priority, since);
        } else if entry.is_idle() {
            self.remove(key);
        }
    }

    /// Returns when the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if self.mode == Mode::Open { self.delayed.keys().next().map(|(at, _)| *at) } else { None }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn shut_down(&mut self, mode: Mode) {
        if self.mode != Mode::Closed {
            self.mode = mode;
        }
    }

    /// Whether nothing is ready and no worker holds a key.
    pub(super) fn is_drained(&self) -> bool {
        self.held.len() == 0 && self.depth() == 0
    }

    pub(super) fn depth(&self) -> usize {
        self.ready.iter().map(BTreeMap::len).sum()
    }

    /// Whether there is work for another waiter: a key to take, or a delayed key to sleep for.
    pub(super) fn has_more(&self) -> bool {
        self.depth() > 0 || !self.delayed.is_empty()
    }

    fn make_ready(&mut self, key: K, payload: N, priority: Priority, since: Instant) {
        let entry = self.entries.entry(key.clone()).or_insert_with(Entry::new);
        entry.payload.merge(payload);
        let mut priority = priority;
        if let Some(delayed) = entry.delayed.take() {
            self.backing_off -= usize::from(entry.failures > 0);
            self.delayed.remove(&(delayed.at, delayed.position));
            priority = priority.max(delayed.priority);
        }
        if entry.held_since.is_some() {
            if entry.dirty.is_none() {
                self.metrics.added();
            }
            let (since, earlier) = entry.dirty.unwrap_or((since, priority));
            entry.dirty = Some((since, priority.max(earlier)));
            return;
        }
        match entry.ready {
            Some(ready) if ready.priority >= priority => {}
            Some(ready) => {
                self.ready[ready.priority as usize].remove(&ready.position);
                self.insert_ready(key, priority, ready.since);
            }
            None => {
                self.metrics.added();
                self.insert_ready(key, priority, since);
            }
        }
    }

    fn insert_ready(&mut self, key: K, priority: Priority, since: Instant) {
        let position = self.next_position;
        self.next_position += 1;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.ready = Some(Ready { priority, position, since });
            self.ready[priority as usize].insert(position, key);
        }
    }

    fn promote_due(&mut self, now: Instant) {
        if self.mode != Mode::Open {
            return;
        }
        while let Some(first) = self.delayed.first_entry() {
            let (at, _) = *first.key();
            if at > now {
                break;
            }
            let key = first.remove();
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let Some(delayed) = entry.delayed.take() else { continue };
            self.backing_off -= usize::from(entry.failures > 0);
            self.make_ready(key, N::default(), delayed.priority, at);
        }
    }

    fn next_priority(&mut self) -> Option<Priority> {
        let [low, normal] = &self.ready;
        match (low.is_empty(), normal.is_empty()) {
            (true, true) => None,
            (true, false) => {
                self.passed_over = 0;
                Some(Priority::Normal)
            }
            (false, normal_is_empty) => {
                self.passed_over += 1;
                if normal_is_empty || self.passed_over >= LOW_PRIORITY_TURN {
                    self.passed_over = 0;
                    Some(Priority::Low)
                } else {
                    Some(Priority::Normal)
                }
            }
        }
    }

    fn remove(&mut self, key: &K) {
        self.entries.remove(key);
        let most = self.entries.len().max(MIN_SHRINK_ENTRIES);
        if self.entries.capacity() > MAX_SPARE_FACTOR * most {
            // Leave room to grow, so that the cost of shrinking is amortised over the removals.
            self.entries.shrink_to(2 * most);
        }
    }
}
