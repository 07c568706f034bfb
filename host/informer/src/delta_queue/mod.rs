//! The queue of deltas between a reflector and the store.

mod merge;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pilothouse_model::{Deletion, Delta, Object, ObjectKey, Replacement};
use tokio::sync::Notify;

use crate::coalesce::CoalescingQueue;
use crate::store::Store;

/// A bounded queue of deltas between a reflector and the store (client-go's `DeltaFIFO` and `RealFIFO`).
///
/// # Guarantees
/// - The deltas of one object leave in the order in which they were pushed. Across objects, the order is that of first
///   positions. A [`Delta::Replaced`] keeps its position: everything pushed before it leaves before it, and nothing is merged
///   across it.
/// - While the queue holds fewer than `capacity` deltas, each delta leaves as it was pushed, with two exceptions: consecutive
///   deletions of one object are merged, and the deletion of an unknown object is dropped.
/// - Above `capacity`, and until the queue has been emptied, the changes of one object are merged: first old state, last new
///   state. An object that was created and deleted meanwhile leaves no delta. An object of the store that was deleted and
///   recreated leaves its deletion and its new state. The deletion of an object of the store is never dropped. A merged delta
///   keeps the position of its first delta, so the store passes through states that the server never had; it equals the
///   server's state again once the queue is empty.
/// - So the queue is bounded by the number of objects, whatever the number of events. Each delta concerns an object that
///   exists or that the store has, since other deletions were dropped or cancelled. Each object has at most two deltas, a
///   deletion and the change after it. So at most `max(capacity, 2 · objects)` deltas are queued after the last replacement,
///   plus those that were queued when it was pushed. A [`resync`](Self::resync) adds at most one delta for each object in the
///   store and never starts merging.
/// - A reflector never starts merging: it pushes a delta only if there is room, and stops reading until then. Your own
///   producer achieves the same if it awaits [`ready`](Self::ready) before each push.
/// - A popped delta is applied before the queue is unlocked, so queue and store never disagree about which objects exist.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use pilothouse_informer::{DeltaQueue, Store};
/// use pilothouse_model::{Delta, Object};
///
/// let store = Arc::new(Store::new());
/// let queue = DeltaQueue::new(Arc::clone(&store), 1024);
/// let pod = Object::from_json(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}"#).unwrap();
/// queue.push(Delta::Added(pod));
/// queue.pop(|delta| if let Delta::Added(object) = delta { store.update(object); }).await;
/// assert_eq!(store.len(), 1);
/// # });
/// ```
pub struct DeltaQueue {
    store: Arc<Store>,
    capacity: usize,
    inner: Mutex<Inner>,
    /// Notified when there is a delta to pop, and on close.
    filled: Notify,
    /// Notified when there are fewer than `capacity` deltas again, and on close.
    has_room: Notify,
    /// Whether the producer has received data that it pushes after the other tasks had a turn.
    incoming: Arc<AtomicBool>,
}

/// The state behind the lock.
struct Inner {
    /// The segments up to and including the last replacement, oldest first.
    earlier: VecDeque<Segment>,
    /// The deltas after the last replacement.
    current: CoalescingQueue<Delta>,
    len: usize,
    /// The version from a bookmark that the store reaches once all queued deltas have been applied.
    advance_to: Option<String>,
    synced: bool,
    closed: bool,
    counts: Counts,
}

/// Deltas that were merged or dropped since the last call of [`DeltaQueue::take_counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Deltas that were merged with a later delta of the same object.
    pub(crate) merged: u64,
    /// Deletions of objects that neither the queue nor the store knew.
    pub(crate) dropped: u64,
}

enum Segment {
    Changes(CoalescingQueue<Delta>),
    Replacement(Replacement),
}

impl DeltaQueue {
    /// Creates an empty queue in front of `store`, to which its consumer must apply the deltas.
    #[must_use]
    pub fn new(store: Arc<Store>, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            store,
            capacity,
            inner: Mutex::new(Inner {
                earlier: VecDeque::new(),
                current: CoalescingQueue::new(capacity),
                len: 0,
                advance_to: None,
                synced: false,
                closed: false,
                counts: Counts::default(),
            }),
            filled: Notify::new(),
            has_room: Notify::new(),
            incoming: Arc::default(),
        }
    }

    /// Returns the flag that the producer sets while it has received data that it pushes after the other tasks had a turn.
    pub(crate) fn incoming_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.incoming)
    }

    /// Whether the producer has set its flag.
    pub(crate) fn has_incoming(&self) -> bool {
        self.incoming.load(Ordering::Relaxed)
    }

    /// Returns the store that the queue feeds.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Appends a delta. Does nothing after [`close`](Self::close).
    pub fn push(&self, delta: Delta) {
        self.push_all(std::iter::once(delta));
    }

    /// Appends several deltas under one lock.
    pub fn push_all(&self, deltas: impl IntoIterator<Item = Delta>) {
        let mut inner = self.inner.lock();
        if inner.closed {
            return;
        }
        for delta in deltas {
            inner.push(delta, &self.store, self.capacity);
        }
        let filled = inner.len > 0;
        drop(inner);
        if filled {
            self.filled.notify_one();
        }
    }

    /// Appends deltas in order and waits for room before each, so that none of them is merged.
    ///
    /// # Cancellation safety
    /// Not cancel safe: a call that is dropped has appended some of the deltas and discards the others.
    pub(crate) async fn push_with_backpressure(&self, deltas: impl Iterator<Item = Delta>) {
        let mut deltas = deltas.peekable();
        while deltas.peek().is_some() {
            self.ready().await;
            let mut inner = self.inner.lock();
            if inner.closed {
                return;
            }
            while inner.len < self.capacity
                && let Some(delta) = deltas.next()
            {
                inner.push(delta, &self.store, self.capacity);
            }
            let filled = inner.len > 0;
            drop(inner);
            if filled {
                self.filled.notify_one();
            }
        }
    }

    /// Records that every change up to `version` has been pushed, as a bookmark says: the store is at `version` once all queued
    /// deltas have been applied.
    pub fn advance_to(&self, version: &str) {
        let mut inner = self.inner.lock();
        if inner.len == 0 {
            self.store.advance_to(version);
        } else {
            inner.advance_to = Some(version.to_owned());
        }
    }

    /// Appends a [`Delta::Sync`] for each object in the store, in key order, except for objects with a queued delta, which is
    /// newer.
    pub fn resync(&self) {
        let mut inner = self.inner.lock();
        if inner.closed || inner.has_replacement() {
            return;
        }
        for object in self.store.list() {
            if inner.current.latest(object.key()).is_none() {
                inner.append_sync(object, &self.store);
            }
        }
        let filled = inner.len > 0;
        drop(inner);
        if filled {
            self.filled.notify_one();
        }
    }

    /// Waits for a delta and passes it to `process`, which must apply it to the store before it returns. `process` runs with
    /// the queue locked, so it must not use the queue. Returns `None` once the queue is closed and empty.
    ///
    /// # Cancellation safety
    /// A call that is dropped has taken nothing.
    pub async fn pop<R>(&self, process: impl FnOnce(Delta) -> R) -> Option<R> {
        self.filled().await.then(|| self.try_pop(process)).flatten()
    }

    /// Like [`pop`](Self::pop), without waiting: returns `None` if the queue is empty.
    pub fn try_pop<R>(&self, process: impl FnOnce(Delta) -> R) -> Option<R> {
        let mut inner = self.inner.lock();
        let was_full = inner.len >= self.capacity;
        let delta = inner.pop()?;
        let replaced = matches!(delta, Delta::Replaced(_));
        self.store.freeze_version(inner.is_merging());
        let result = process(delta);
        inner.synced |= replaced;
        if inner.len == 0
            && let Some(version) = inner.advance_to.take()
        {
            self.store.advance_to(&version);
        }
        let has_space = was_full && inner.len < self.capacity;
        drop(inner);
        if has_space {
            self.has_room.notify_one();
        }
        Some(result)
    }

    /// Waits until there is a delta to pop. Returns `false` once the queue is closed and empty.
    async fn filled(&self) -> bool {
        loop {
            let filled = self.filled.notified();
            tokio::pin!(filled);
            filled.as_mut().enable();
            {
                let inner = self.inner.lock();
                if inner.len > 0 {
                    return true;
                }
                if inner.closed {
                    // Pass the wake-up on, because other tasks may wait, too.
                    self.filled.notify_one();
                    return false;
                }
            }
            filled.await;
        }
    }

    /// Waits until the queue holds fewer than `capacity` deltas or is closed. A producer that pushes only then is slowed down to
    /// the speed of the consumer.
    ///
    /// # Cancellation safety
    /// This method is cancel safe.
    pub async fn ready(&self) {
        loop {
            let has_room = self.has_room.notified();
            tokio::pin!(has_room);
            has_room.as_mut().enable();
            {
                let inner = self.inner.lock();
                if inner.closed || inner.len < self.capacity {
                    return;
                }
            }
            has_room.await;
        }
    }

    /// Whether the first replacement has been processed.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.inner.lock().synced
    }

    /// Returns the number of queued deltas. A replacement counts as its number of items, but at least one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.lock().len
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counts of merged and dropped deltas since the last call.
    pub(crate) fn take_counts(&self) -> Counts {
        let mut inner = self.inner.lock();
        inner.counts.merged += inner.current.take_merged();
        std::mem::take(&mut inner.counts)
    }

    /// Closes the queue: rejects further deltas and wakes all waiters. Queued deltas can still be popped.
    pub fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
        self.filled.notify_waiters();
        self.has_room.notify_waiters();
    }
}

impl Inner {
    fn push(&mut self, delta: Delta, store: &Store, capacity: usize) {
        // This delta is newer than the bookmark and has its own version.
        self.advance_to = None;
        let delta = match delta {
            Delta::Replaced(replacement) => {
                self.len += weight(&replacement);
                let mut changes = std::mem::replace(&mut self.current, CoalescingQueue::new(capacity));
                self.counts.merged += changes.take_merged();
                if !changes.is_empty() {
                    self.earlier.push_back(Segment::Changes(changes));
                }
                self.earlier.push_back(Segment::Replacement(replacement));
                return;
            }
            Delta::Deleted(deletion) => match self.accept_deletion(deletion, store) {
                Some(deletion) => Delta::Deleted(deletion),
                None => return,
            },
            other => other,
        };
        let before = self.current.len();
        let earlier = &self.earlier;
        self.current.push(delta, &|key| is_known(earlier, store, key));
        self.len = self.len + self.current.len() - before;
    }

    /// Appends a sync without starting to merge: a resync adds at most one delta for each object in the store.
    fn append_sync(&mut self, object: Object, store: &Store) {
        let before = self.current.len();
        let earlier = &self.earlier;
        self.current.append(Delta::Sync(object), &|key| is_known(earlier, store, key));
        self.len = self.len + self.current.len() - before;
    }

    /// Returns the deletion if it has to be queued. `None` if it was merged with a queued deletion, or if the object is unknown.
    fn accept_deletion(&mut self, deletion: Deletion, store: &Store) -> Option<Deletion> {
        match self.current.latest_mut(deletion.last.key()) {
            Some(Delta::Deleted(queued)) => {
                *queued = queued.clone().merge(deletion);
                self.counts.merged += 1;
                None
            }
            Some(_) => Some(deletion),
            None if is_known(&self.earlier, store, deletion.last.key()) => Some(deletion),
            None => {
                self.counts.dropped += 1;
                None
            }
        }
    }

    fn pop(&mut self) -> Option<Delta> {
        loop {
            match self.earlier.pop_front() {
                None => {
                    let delta = self.current.pop()?;
                    self.len -= 1;
                    return Some(delta);
                }
                Some(Segment::Replacement(replacement)) => {
                    self.len -= weight(&replacement);
                    return Some(Delta::Replaced(replacement));
                }
                Some(Segment::Changes(mut changes)) => {
                    if let Some(delta) = changes.pop() {
                        self.len -= 1;
                        self.earlier.push_front(Segment::Changes(changes));
                        return Some(delta);
                    }
                }
            }
        }
    }

    /// Whether the queued deltas are not in version order: a merged delta has the version of its last and the position of its
    /// first.
    fn is_merging(&self) -> bool {
        let earlier =
            |segment: &Segment| matches!(segment, Segment::Changes(changes) if changes.is_merging());
        self.current.is_merging() || self.earlier.iter().any(earlier)
    }

    fn has_replacement(&self) -> bool {
        self.earlier.iter().any(|segment| matches!(segment, Segment::Replacement(_)))
    }
}

/// Whether the object exists once everything in `earlier` has been applied to the store. Its last segment is always a
/// replacement: changes are moved there only in front of one.
fn is_known(earlier: &VecDeque<Segment>, store: &Store, key: &ObjectKey) -> bool {
    match earlier.back() {
        Some(Segment::Replacement(replacement)) => replacement.items.iter().any(|item| item.key() == key),
        Some(Segment::Changes(_)) | None => store.contains(key),
    }
}

/// The length of a replacement. An empty one counts, too, because it has to be popped.
fn weight(replacement: &Replacement) -> usize {
    replacement.items.len().max(1)
}

impl fmt::Debug for DeltaQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        f.debug_struct("DeltaQueue")
            .field("len", &inner.len)
            .field("capacity", &self.capacity)
            .field("synced", &inner.synced)
            .field("closed", &inner.closed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
