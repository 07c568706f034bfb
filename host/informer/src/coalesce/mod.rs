//! The merging queue behind the delta queue and behind each subscriber's backlog. It is exact while it is short, and its length
//! is bounded by the number of live objects when it is not.
//!
//! Up to `limit` items are kept as they were pushed, so a consumer that keeps up gets every event. One item more starts
//! merging: from then until the queue has been emptied, each key has at most two pending items.
//!
//! # What is merged
//!
//! Only items of the same key are merged, and only into items with the same effect. The pending items of a key are one of: an
//! addition, a change, a deletion, or a deletion followed by an addition. The next item changes them as follows:
//!
//! | pending | then an addition or change | then a deletion |
//! |---|---|---|
//! | nothing | that item | that item |
//! | addition | addition of the new state | nothing, since the consumer never saw the object; the deletion, if the consumer knows the key all the same |
//! | change | change from the first old state to the new state (for a subscriber, an addition makes it a deletion and an addition) | deletion |
//! | deletion | deletion, addition | the more informative deletion |
//! | deletion, addition | deletion, addition of the new state | the first deletion |
//!
//! No row loses the deletion of an object that the consumer has seen: it stays until it is taken. The deletion of an object that
//! the consumer has never seen cancels its addition.
//!
//! # Why the length is bounded
//!
//! Let `seen` be the keys that the consumer knows from the items it has taken. While the queue merges, the table implies:
//! 1. A key has at most two items, since every cell has at most two.
//! 2. A key whose object does not exist now has an item only if it is in `seen`. The last event for the key is a deletion, which
//!    leaves an item only if a change, a deletion or nothing was pending. Each of these occurs only for a key that the consumer
//!    knows.
//! 3. So each key with items is live or seen, and at most `2 · |live ∪ seen|` items are pending.
//!
//! `seen` grows only when the consumer takes items, and only by keys that were live at that time. Together with the exact phase,
//! the bound is `max(limit, 2 · |live ∪ seen|)`, whatever the number of events, and whether they concern one name or a million.
//! Merging ends when the consumer has caught up, not when cancellation makes the queue short. Otherwise a name that is created
//! and deleted repeatedly would make the queue collect `limit` items again and again.
//!
//! # Order
//!
//! The items of one key leave in the order in which they were pushed. Across keys the order is that of first positions: a merged
//! item keeps the position of its first item. So no key is delayed by the changes of others. The state after some of the items
//! of a merging queue may be one that never existed; the state after all of them is correct.

use std::collections::{BTreeMap, VecDeque};

use pilothouse_model::ObjectKey;
use pilothouse_model::hash::HashMap;

/// The most items that are searched for a key.
const MAX_SEARCHED: usize = 32;

/// An item that can be merged with later items of the same key.
pub(crate) trait Coalesce: Sized {
    /// Returns the key of the object that the item is about.
    fn key(&self) -> &ObjectKey;

    /// Merges `next` into the `pending` items of its key. Returns `None` if they cancel out. `is_known` returns whether the
    /// consumer knew the object before the first pending item.
    fn merge(
        pending: Merged<Self>,
        next: Self,
        is_known: &dyn Fn(&ObjectKey) -> bool,
    ) -> Option<Merged<Self>>;
}

/// The pending items of one key, after merging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Merged<T> {
    One(T),
    /// A deletion, then an addition.
    Two(T, T),
}

/// A queue that starts to merge the items of each key when it reaches its limit; see the [module documentation](self).
///
/// Invariants: `exact` is empty while merging, `merged` is empty otherwise. `len` counts items. Positions grow and are never
/// reused. While merging, `positions` has exactly the keys of `merged`. Otherwise it has the last position of every key in
/// `exact` if `tracks_positions`, and is empty if not.
pub(crate) struct CoalescingQueue<T> {
    limit: usize,
    /// Whether `latest` was called for a long queue since the queue was empty. It is called only for deletions and resyncs, and
    /// a short queue is searched, so most of the time no positions are needed.
    tracks_positions: bool,
    exact: VecDeque<T>,
    /// The position of the first item in `exact`; the others follow without gaps.
    exact_start: u64,
    merging: bool,
    merged: BTreeMap<u64, Merged<T>>,
    positions: HashMap<ObjectKey, u64>,
    next_position: u64,
    len: usize,
    /// Items merged away since the last [`take_merged`](CoalescingQueue::take_merged).
    merged_away: u64,
}

impl<T: Coalesce> CoalescingQueue<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            tracks_positions: false,
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

    /// Returns how many items were merged away since the last call. Each push adds one to the length or to this count, and an
    /// addition that is cancelled by its deletion counts as two.
    pub(crate) fn take_merged(&mut self) -> u64 {
        std::mem::take(&mut self.merged_away)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether items may leave in another order than that in which they were pushed.
    pub(crate) fn is_merging(&self) -> bool {
        self.merging
    }

    /// Returns the position of the next item to be pushed.
    pub(crate) fn next_position(&self) -> u64 {
        self.next_position
    }

    /// Returns the position of the first pending item.
    pub(crate) fn first_position(&self) -> Option<u64> {
        if self.merging {
            self.merged.keys().next().copied()
        } else {
            (self.len > 0).then_some(self.exact_start)
        }
    }

    /// Appends an item. Starts merging if the queue is at its limit. `is_known` is as in [`Coalesce::merge`].
    pub(crate) fn push(&mut self, item: T, is_known: &dyn Fn(&ObjectKey) -> bool) {
        if !self.merging && self.len >= self.limit {
            self.start_merging(is_known);
        }
        self.append(item, is_known);
    }

    /// Like [`push`](Self::push), but never starts merging. For items whose number is bounded in another way.
    pub(crate) fn append(&mut self, item: T, is_known: &dyn Fn(&ObjectKey) -> bool) {
        let position = self.next_position;
        self.next_position += 1;
        if self.merging {
            self.fold(position, item, is_known);
            return;
        }
        if self.exact.is_empty() {
            self.exact_start = position;
        }
        if self.tracks_positions {
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
            self.tracks_positions = false;
        }
        item
    }

    /// Returns the last pending item of a key.
    pub(crate) fn latest_mut(&mut self, key: &ObjectKey) -> Option<&mut T> {
        if self.is_short() {
            return self.exact.iter_mut().rev().find(|item| item.key() == key);
        }
        self.track_positions();
        let position = *self.positions.get(key)?;
        if self.merging {
            return self.merged.get_mut(&position).map(|pending| match pending {
                Merged::One(item) | Merged::Two(_, item) => item,
            });
        }
        let index = usize::try_from(position.checked_sub(self.exact_start)?).ok()?;
        self.exact.get_mut(index)
    }

    /// Returns the last pending item of a key.
    pub(crate) fn latest(&mut self, key: &ObjectKey) -> Option<&T> {
        if self.is_short() {
            return self.exact.iter().rev().find(|item| item.key() == key);
        }
        self.track_positions();
        let position = *self.positions.get(key)?;
        if self.merging {
            return self.merged.get(&position).map(|pending| match pending {
                Merged::One(item) | Merged::Two(_, item) => item,
            });
        }
        self.exact.get(usize::try_from(position.checked_sub(self.exact_start)?).ok()?)
    }

    /// Whether searching the items takes less than tracking their positions.
    fn is_short(&self) -> bool {
        !self.merging && !self.tracks_positions && self.exact.len() <= MAX_SEARCHED
    }

    /// Tracks the positions of the items from now on.
    fn track_positions(&mut self) {
        if self.merging || self.tracks_positions || self.exact.is_empty() {
            return;
        }
        self.tracks_positions = true;
        let items = self.exact.iter().map(|item| item.key().clone());
        self.positions.extend(items.zip(self.exact_start..));
    }

    fn pop_exact(&mut self) -> Option<T> {
        let item = self.exact.pop_front()?;
        if self.tracks_positions && self.positions.get(item.key()) == Some(&self.exact_start) {
            self.positions.remove(item.key());
        }
        self.exact_start += 1;
        Some(item)
    }

    fn pop_merged(&mut self) -> Option<T> {
        let entry = self.merged.first_entry()?;
        let item = match entry.get() {
            Merged::Two(..) => {
                // The first half leaves; the second half keeps the position.
                let position = *entry.key();
                let Merged::Two(first, second) = entry.remove() else { return None };
                self.merged.insert(position, Merged::One(second));
                return Some(first);
            }
            Merged::One(_) => match entry.remove() {
                Merged::One(item) | Merged::Two(item, _) => item,
            },
        };
        self.positions.remove(item.key());
        Some(item)
    }

    fn start_merging(&mut self, is_known: &dyn Fn(&ObjectKey) -> bool) {
        self.merging = true;
        self.tracks_positions = false;
        self.positions.clear();
        self.len = 0;
        let exact = std::mem::take(&mut self.exact);
        for (position, item) in (self.exact_start..).zip(exact) {
            self.fold(position, item, is_known);
        }
    }

    /// Ends merging. Called only when the queue is empty; see the module documentation.
    fn stop_merging(&mut self) {
        if self.merging {
            self.merging = false;
            self.positions = HashMap::default();
        }
    }

    /// Merges an item into the pending items of its key.
    fn fold(&mut self, position: u64, item: T, is_known: &dyn Fn(&ObjectKey) -> bool) {
        let Some(first_position) = self.positions.get(item.key()).copied() else {
            self.positions.insert(item.key().clone(), position);
            self.merged.insert(position, Merged::One(item));
            self.len += 1;
            return;
        };
        let Some(pending) = self.merged.remove(&first_position) else { return };
        self.len -= pending.len();
        let mut merged_away = pending.len() + 1;
        let key = item.key().clone();
        match T::merge(pending, item, is_known) {
            Some(pending) => {
                self.len += pending.len();
                merged_away -= pending.len();
                self.merged.insert(first_position, pending);
            }
            None => {
                self.positions.remove(&key);
            }
        }
        self.merged_away += merged_away as u64;
    }
}

impl<T> Merged<T> {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(..) => 2,
        }
    }
}

#[cfg(test)]
mod tests;
