//! The queue's state, without waiting: the caller passes the current time to every method.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::hash::HashMap;
use tokio::time::Instant;

use super::{KeyPayload, KeyState, KeyStatus, PendingItem, Priority, QueueMetrics, QueueSnapshot, RateLimit};

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

/// The state of a key: ready, delayed, or neither. Independently of that, a worker may hold it.
///
/// Invariants: a key is never both ready and delayed, because the earlier time wins. A key that a worker holds is never ready;
/// if it is added, it becomes `dirty` (as in client-go) and is made ready when the worker releases it. `ready` and `delayed`
/// are the only copies of the positions in `State::ready` and `State::delayed`.
struct Entry<N> {
    ready: Option<Ready>,
    delayed: Option<Delayed>,
    held_since: Option<Instant>,
    /// Added while held: the time of the first such add, and the highest priority.
    dirty: Option<(Instant, Priority)>,
    /// Rate-limited adds since the last `forget`.
    failures: u32,
    /// The merged payload of the adds since a worker last took the key.
    payload: N,
}

#[derive(Clone, Copy)]
struct Ready {
    priority: Priority,
    position: u64,
    since: Instant,
}

#[derive(Clone, Copy)]
struct Delayed {
    at: Instant,
    position: u64,
    priority: Priority,
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

/// When the held keys were taken, in order. A worker holds one key, so there are few.
#[derive(Default)]
struct HeldTimes(VecDeque<Instant>);

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

    pub(super) fn snapshot(&self, now: Instant) -> QueueSnapshot {
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
    pub(super) fn counted_snapshot(&self, now: Instant) -> QueueSnapshot {
        let count = |is_counted: fn(&Entry<N>) -> bool| {
            self.entries.values().filter(|entry| is_counted(entry)).count()
        };
        let held = self.entries.values().filter_map(|entry| entry.held_since);
        let held: Vec<Duration> = held.map(|since| now.saturating_duration_since(since)).collect();
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
    pub(super) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns what a key waits for; `None` if it is not pending.
    pub(super) fn status(&self, key: &K, now: Instant) -> Option<KeyStatus<K>> {
        let entry = self.entries.get(key)?;
        let state = match (entry.held_since, entry.ready) {
            (Some(since), _) => KeyState::Processing(now.saturating_duration_since(since)),
            (None, Some(ready)) => KeyState::Ready(now.saturating_duration_since(ready.since)),
            (None, None) => KeyState::Delayed(entry.delayed?.at.saturating_duration_since(now)),
        };
        Some(KeyStatus { key: key.clone(), state, attempts: entry.failures })
    }

    /// Returns up to `limit` pending keys: those that workers hold, those that wait for a retry, ready keys, and the other delayed keys.
    pub(super) fn list(&self, limit: usize, now: Instant) -> Vec<KeyStatus<K>> {
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

    /// Returns the pending keys: ready keys, then delayed keys, each in order, then the keys that workers hold.
    pub(super) fn export(&self, now: Instant) -> Vec<PendingItem<K>> {
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

    pub(super) fn import(&mut self, items: Vec<PendingItem<K>>, now: Instant) {
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
    pub(super) fn discard(&mut self) -> DiscardedEntries<K, N> {
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

    #[cfg(test)]
    pub(super) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
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

/// The entries that [`State::discard`] removed.
pub(super) struct DiscardedEntries<K, N> {
    _entries: HashMap<K, Entry<N>>,
    _ready: [BTreeMap<u64, K>; 2],
    _delayed: BTreeMap<(Instant, u64), K>,
}

impl<N: KeyPayload> Entry<N> {
    fn new() -> Self {
        Self { ready: None, delayed: None, held_since: None, dirty: None, failures: 0, payload: N::default() }
    }

    fn is_idle(&self) -> bool {
        self.ready.is_none()
            && self.delayed.is_none()
            && self.held_since.is_none()
            && self.dirty.is_none()
            && self.failures == 0
    }

    /// Whether the key waits for a retry.
    fn is_backing_off(&self) -> bool {
        self.failures > 0 && self.delayed.is_some()
    }
}

impl HeldTimes {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn insert(&mut self, since: Instant) {
        // Nearly always at the end, because time does not go back.
        let earlier = self.0.iter().rposition(|earlier| *earlier <= since);
        self.0.insert(earlier.map_or(0, |position| position + 1), since);
    }

    fn remove(&mut self, since: Instant) {
        let position = self.0.partition_point(|earlier| *earlier < since);
        self.0.remove(position);
    }

    /// For how long the keys have been held, the longest first.
    fn durations(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.0.iter().map(move |since| now.saturating_duration_since(*since))
    }
}
