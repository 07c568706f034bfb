mod merge;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_model::{Deletion, Delta, Object, ObjectKey, Replacement};
use tokio::sync::Notify;

use crate::coalesce::CoalescingQueue;
use crate::store::Store;

/// The deltas between a reflector and the store (client-go's `DeltaFIFO` and `RealFIFO`).
///
/// # What is guaranteed
/// - An object's deltas leave in the order in which they came; across objects the order is that of first positions (B11).
///   A [`Delta::Replaced`] keeps its place: what came before it leaves before it, and nothing is merged across it.
/// - While it holds fewer than `capacity` deltas, each leaves as it came, except that two deletions in a row of one
///   object are one (B12), and that deleting what nobody knows adds nothing (B13).
/// - Beyond that, until it has been emptied, the changes of one object are merged: first old, last new. An object that
///   came and went in between leaves no trace; one that the store has and that was deleted and made again leaves its
///   deletion and its new state; the deletion of what the store has is never dropped. A merged delta keeps the place of its
///   first, so the store passes through states that the server never had, and is right once the queue is empty.
/// - Hence what waits is bounded by objects, whatever the number of events (B19). Each delta is about an object that exists
///   or that the store has, since any other deletion was refused or cancelled out; and each object has at most two, a
///   deletion and what came after it. So at most `max(capacity, 2 · objects)` deltas wait after the last replacement, and
///   before it what waited when it came. A [`resync`](Self::resync) adds at most one for each object in the store, and
///   never makes the queue merge.
/// - A reflector never makes it merge: it pushes a delta only once there is room, and reads no further until then. A
///   producer of your own does the same when it awaits [`ready`](Self::ready) before each push.
/// - A popped delta is applied before the queue is unlocked, so queue and store never disagree about what exists (B16).
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
    /// Something to pop, or closed.
    filled: Notify,
    /// Fewer than `capacity` deltas again, or closed.
    drained: Notify,
}

struct Inner {
    /// Full segments that a replacement ended, oldest first.
    earlier: VecDeque<Segment>,
    /// What came after the last replacement.
    current: CoalescingQueue<Delta>,
    len: usize,
    /// The version of the store once everything that waits has been applied, when a bookmark told it.
    advance_to: Option<String>,
    synced: bool,
    closed: bool,
    counts: Counts,
}

/// What the queue did not keep, since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Deltas that were merged with a later one of the same object.
    pub(crate) merged: u64,
    /// Deletions of what nobody knew.
    pub(crate) dropped: u64,
}

enum Segment {
    Changes(CoalescingQueue<Delta>),
    Replacement(Replacement),
}

impl DeltaQueue {
    /// An empty queue in front of `store`, which its consumer must keep up to date.
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
            drained: Notify::new(),
        }
    }

    /// The store that it is in front of.
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

    /// Appends deltas in order, each only once there is room for it, so that none of them is merged.
    ///
    /// # Cancellation safety
    /// A call that is dropped has appended some of the deltas, and drops the others.
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

    /// Everything up to `version` has been pushed: the store is at `version` once all that waits has been applied. That is
    /// what a bookmark tells.
    pub fn advance_to(&self, version: &str) {
        let mut inner = self.inner.lock();
        if inner.len == 0 {
            self.store.advance_to(version);
        } else {
            inner.advance_to = Some(version.to_owned());
        }
    }

    /// Appends a [`Delta::Sync`] for each object in the store, by key, except those with a delta already waiting, which is
    /// newer (B15).
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

    /// Waits for a delta and gives it to `process`, which must apply it to the store before it returns. `process` runs
    /// with the queue locked: it must not use the queue. `None` once the queue is closed and empty.
    ///
    /// # Cancellation safety
    /// A call that is dropped has taken nothing.
    pub async fn pop<R>(&self, process: impl FnOnce(Delta) -> R) -> Option<R> {
        self.filled().await.then(|| self.try_pop(process)).flatten()
    }

    /// As [`pop`](Self::pop), without waiting.
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
        let has_room = was_full && inner.len < self.capacity;
        drop(inner);
        if has_room {
            self.drained.notify_one();
        }
        Some(result)
    }

    /// Waits until there is something to pop; `false` once the queue is closed and empty.
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
                    // Pass the wake-up on: others may wait, too.
                    self.filled.notify_one();
                    return false;
                }
            }
            filled.await;
        }
    }

    /// Waits until the queue holds fewer than `capacity` deltas or is closed. A producer that pushes only then is held back
    /// by a slow consumer.
    ///
    /// # Cancellation safety
    /// Safe.
    pub async fn ready(&self) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            {
                let inner = self.inner.lock();
                if inner.closed || inner.len < self.capacity {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Whether the first replacement has been processed whole (B17).
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.inner.lock().synced
    }

    /// How many deltas wait; a replacement counts its items, and at least one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.lock().len
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was not kept since the last call.
    pub(crate) fn take_counts(&self) -> Counts {
        let mut inner = self.inner.lock();
        inner.counts.merged += inner.current.take_merged();
        std::mem::take(&mut inner.counts)
    }

    /// Refuses further deltas and wakes all waiters (B18). What waits can still be popped.
    pub fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
        self.filled.notify_waiters();
        self.drained.notify_waiters();
    }
}

impl Inner {
    fn push(&mut self, delta: Delta, store: &Store, capacity: usize) {
        // What comes later has a later version of its own.
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
        self.current.push(delta, &|key| known(earlier, store, key));
        self.len = self.len + self.current.len() - before;
    }

    /// A resync never makes the queue merge: it adds at most one delta for each object in the store.
    fn append_sync(&mut self, object: Object, store: &Store) {
        let before = self.current.len();
        let earlier = &self.earlier;
        self.current.append(Delta::Sync(object), &|key| known(earlier, store, key));
        self.len = self.len + self.current.len() - before;
    }

    /// The deletion if it is to be queued: not when it was merged with one that waits (B12), nor when nobody knows the
    /// object (B13).
    fn accept_deletion(&mut self, deletion: Deletion, store: &Store) -> Option<Deletion> {
        match self.current.latest_mut(deletion.last.key()) {
            Some(Delta::Deleted(waiting)) => {
                *waiting = waiting.clone().merge(deletion);
                self.counts.merged += 1;
                None
            }
            Some(_) => Some(deletion),
            None if known(&self.earlier, store, deletion.last.key()) => Some(deletion),
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

    /// Whether what waits is not in the order of versions: a merged delta has the last version in the first place.
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
fn known(earlier: &VecDeque<Segment>, store: &Store, key: &ObjectKey) -> bool {
    match earlier.back() {
        Some(Segment::Replacement(replacement)) => replacement.items.iter().any(|item| item.key() == key),
        Some(Segment::Changes(_)) | None => store.contains(key),
    }
}

/// Even an empty replacement is something to pop.
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
