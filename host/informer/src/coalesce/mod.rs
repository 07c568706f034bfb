//! The queue behind the delta queue and behind each subscriber's backlog: exact while it is short, bounded by live
//! objects when it is not (B19).
//!
//! Up to `limit` items are kept as they came, so a consumer that keeps up gets every event. When an item more arrives, the
//! queue merges: from then until it has been emptied, each key has at most two pending items.
//!
//! # What may be merged
//!
//! Only items of one key, and into what tells the same in the end. What is pending for a key is one of: an addition, a change,
//! a deletion, or a deletion and then an addition. With what comes next:
//!
//! | pending | addition or change | deletion |
//! |---|---|---|
//! | nothing | it | it |
//! | addition | addition of the new state | nothing, as the consumer was never told; if it knows the key all the same, the deletion |
//! | change | change from the first old state to the new one (an addition after it, at a subscriber: deletion, addition) | deletion |
//! | deletion | deletion, addition | the deletion that says more (B12) |
//! | deletion, addition | deletion, addition of the new state | the first deletion |
//!
//! No row loses a deletion of what the consumer was told of: it stays until it is taken. One of what the consumer was never
//! told of cancels out with its addition.
//!
//! # Why the bound holds
//!
//! Let `told` be the keys that the consumer knows by what it has taken. While the queue merges, by the table:
//! 1. A key has at most two items, since every cell has at most two.
//! 2. A key whose object does not exist now has an item only if it is told: the last thing that came for it is a deletion,
//!    and that leaves an item only where a change or a deletion was pending, or nothing was — each of which comes only for
//!    what the consumer knows.
//! 3. So each key with items is live or told: at most `2 · |live ∪ told|` items wait.
//!
//! `told` grows only as the consumer takes items, and only by what was live then. Together with the exact phase the bound is
//! `max(limit, 2 · |live ∪ told|)`, whatever the number of events, and whether they concern one name or a million. Merging ends
//! when the consumer has caught up, not when the queue gets short by cancellation: otherwise a name that comes and goes
//! would make it collect `limit` items time and again.
//!
//! # Order
//!
//! The items of one key leave in the order in which they came. Across keys the order is that of first positions: a merged item
//! keeps the place of its first (B11). So nobody waits behind the changes of others, but the state after some of the items of a
//! merged queue need not be one that ever was; the state after all of them is.

use std::collections::{BTreeMap, HashMap, VecDeque};

use pilothouse_model::ObjectKey;

use crate::key::FastHash;

/// An item that can be merged with later items of the same key.
pub(crate) trait Coalesce: Sized {
    fn key(&self) -> &ObjectKey;

    /// What is left of `pending` and the later `next`: nothing when they cancel out. `known` says whether the consumer
    /// knew the key's object before the first pending item.
    fn merge(pending: Pending<Self>, next: Self, known: &dyn Fn(&ObjectKey) -> bool)
    -> Option<Pending<Self>>;
}

/// The pending items of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending<T> {
    One(T),
    /// A deletion, then an addition.
    Two(T, T),
}

/// Invariants: `exact` is empty while merging, `merged` is empty while not; `len` counts items; positions grow and are
/// never reused; while merging, `places` has exactly the keys of `merged`; while not, it has the last position of every
/// key in `exact` if `tracks`, and is empty otherwise.
pub(crate) struct CoalescingQueue<T> {
    limit: usize,
    /// Somebody has asked for the latest item of a key since the queue was empty: they do for deletions, which are few.
    tracks: bool,
    exact: VecDeque<T>,
    /// Position of the first item in `exact`; the others follow without a hole.
    exact_start: u64,
    merging: bool,
    merged: BTreeMap<u64, Pending<T>>,
    positions: HashMap<ObjectKey, u64, FastHash>,
    next_position: u64,
    len: usize,
    /// Items that were merged away since the last [`take_merged`](CoalescingQueue::take_merged).
    merged_away: u64,
}

impl<T: Coalesce> CoalescingQueue<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            tracks: false,
            exact: VecDeque::new(),
            exact_start: 0,
            merging: false,
            merged: BTreeMap::new(),
            positions: HashMap::default(),
            next_position: 0,
            len: 0,
            merged_away: 0,
        }
    }

    /// How many items were merged away since the last call: each push adds one to the length or to this, and what an
    /// addition and its deletion cancel out counts as two.
    pub(crate) fn take_merged(&mut self) -> u64 {
        std::mem::take(&mut self.merged_away)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether items may leave in another order than that in which they came.
    pub(crate) fn is_merging(&self) -> bool {
        self.merging
    }

    /// The position that the next item would get.
    pub(crate) fn next_position(&self) -> u64 {
        self.next_position
    }

    /// The position of the first pending item.
    pub(crate) fn first_position(&self) -> Option<u64> {
        if self.merging {
            self.merged.keys().next().copied()
        } else {
            (self.len > 0).then_some(self.exact_start)
        }
    }

    pub(crate) fn push(&mut self, item: T, known: &dyn Fn(&ObjectKey) -> bool) {
        if !self.merging && self.len >= self.limit {
            self.start_merging(known);
        }
        self.append(item, known);
    }

    /// As [`push`](Self::push), but an exact queue stays exact: for items whose number is bounded by other means.
    pub(crate) fn append(&mut self, item: T, known: &dyn Fn(&ObjectKey) -> bool) {
        let position = self.next_position;
        self.next_position += 1;
        if self.merging {
            self.fold(position, item, known);
            return;
        }
        if self.exact.is_empty() {
            self.exact_start = position;
        }
        if self.tracks {
            self.positions.insert(item.key().clone(), position);
        }
        self.exact.push_back(item);
        self.len += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = if self.merging { self.pop_merged() } else { self.pop_exact() };
        if item.is_some() {
            self.len -= 1;
        }
        if self.len == 0 {
            self.stop_merging();
            self.tracks = false;
        }
        item
    }

    /// The last pending item of a key.
    pub(crate) fn latest_mut(&mut self, key: &ObjectKey) -> Option<&mut T> {
        self.track();
        let place = *self.positions.get(key)?;
        if self.merging {
            return self.merged.get_mut(&place).map(|pending| match pending {
                Pending::One(item) | Pending::Two(_, item) => item,
            });
        }
        let index = usize::try_from(place.checked_sub(self.exact_start)?).ok()?;
        self.exact.get_mut(index)
    }

    /// The last pending item of a key.
    pub(crate) fn latest(&mut self, key: &ObjectKey) -> Option<&T> {
        self.track();
        let place = *self.positions.get(key)?;
        if self.merging {
            return self.merged.get(&place).map(|pending| match pending {
                Pending::One(item) | Pending::Two(_, item) => item,
            });
        }
        self.exact.get(usize::try_from(place.checked_sub(self.exact_start)?).ok()?)
    }

    /// Notes where the items are, from now on.
    fn track(&mut self) {
        if self.merging || self.tracks || self.exact.is_empty() {
            return;
        }
        self.tracks = true;
        let items = self.exact.iter().map(|item| item.key().clone());
        self.positions.extend(items.zip(self.exact_start..));
    }

    fn pop_exact(&mut self) -> Option<T> {
        let item = self.exact.pop_front()?;
        if self.tracks && self.positions.get(item.key()) == Some(&self.exact_start) {
            self.positions.remove(item.key());
        }
        self.exact_start += 1;
        Some(item)
    }

    fn pop_merged(&mut self) -> Option<T> {
        let entry = self.merged.first_entry()?;
        let item = match entry.get() {
            Pending::Two(..) => {
                // Half of the pair leaves; the other half keeps the place.
                let position = *entry.key();
                let Pending::Two(first, second) = entry.remove() else { return None };
                self.merged.insert(position, Pending::One(second));
                return Some(first);
            }
            Pending::One(_) => match entry.remove() {
                Pending::One(item) | Pending::Two(item, _) => item,
            },
        };
        self.positions.remove(item.key());
        Some(item)
    }

    fn start_merging(&mut self, known: &dyn Fn(&ObjectKey) -> bool) {
        self.merging = true;
        self.tracks = false;
        self.positions.clear();
        self.len = 0;
        let exact = std::mem::take(&mut self.exact);
        for (position, item) in (self.exact_start..).zip(exact) {
            self.fold(position, item, known);
        }
    }

    /// Only when the consumer has caught up; see the module's documentation.
    fn stop_merging(&mut self) {
        if self.merging {
            self.merging = false;
            self.positions = HashMap::default();
        }
    }

    fn fold(&mut self, position: u64, item: T, known: &dyn Fn(&ObjectKey) -> bool) {
        let Some(place) = self.positions.get(item.key()).copied() else {
            self.positions.insert(item.key().clone(), position);
            self.merged.insert(position, Pending::One(item));
            self.len += 1;
            return;
        };
        let Some(pending) = self.merged.remove(&place) else { return };
        self.len -= pending.len();
        let mut merged_away = pending.len() + 1;
        let key = item.key().clone();
        match T::merge(pending, item, known) {
            Some(pending) => {
                self.len += pending.len();
                merged_away -= pending.len();
                self.merged.insert(place, pending);
            }
            None => {
                self.positions.remove(&key);
            }
        }
        self.merged_away += merged_away as u64;
    }
}

impl<T> Pending<T> {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(..) => 2,
        }
    }
}

#[cfg(test)]
mod tests;
