//! The work queue: keys to be reconciled, each once, with delays, retries and priorities (client-go's `workqueue`,
//! controller-runtime's priority queue).

mod metrics;
#[cfg(test)]
mod model_tests;
mod rate_limit;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub use metrics::{NoMetrics, QueueMetrics, QueueSnapshot, names};
pub use rate_limit::{RateLimit, TokenBucket};
use state::{Mode, PoppedItem, State};

/// How urgent a key is (B45).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// From an initial list, a resync or a reload: waits behind live changes, but one pop in ten is for it.
    Low,
    /// A live change.
    Normal,
}

/// How a queue behaves.
#[derive(Clone)]
pub struct WorkQueueOptions {
    /// How long retries wait.
    pub rate_limit: RateLimit,
    /// Who counts.
    pub metrics: Arc<dyn QueueMetrics>,
}

impl Default for WorkQueueOptions {
    fn default() -> Self {
        Self { rate_limit: RateLimit::default(), metrics: Arc::new(NoMetrics) }
    }
}

/// What adds say of a key beside its priority, for the worker that takes it: of several adds, merged.
pub trait Note: Default + Send + 'static {
    /// Takes in what a further add says.
    fn merge(&mut self, other: Self);
}

impl Note for () {
    fn merge(&mut self, (): Self) {}
}

/// A queue of keys for workers. Cloning makes another handle to the same queue.
///
/// - A key that is added while it waits is there once; added while a worker holds it, it comes again when the worker is
///   done, once (B40). Two workers never hold one key (B41).
/// - A key has one time: of two adds the earlier wins, so that an immediate add takes the place of a delayed one (B42).
/// - Only [`add_rate_limited`](Self::add_rate_limited) is limited (B43).
/// - Ready keys leave in order of arrival, live changes before low-priority keys (B45).
///
/// What is noted with the adds of a key goes to the worker that takes it next; [`export`](Self::export) leaves it behind.
///
/// Memory: one entry for each key that waits, is held, or has failed since it was last forgotten.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use pilothouse_informer::{Priority, WorkQueue, WorkQueueOptions};
///
/// let queue = WorkQueue::new(WorkQueueOptions::default());
/// queue.add("default/web", Priority::Normal);
/// queue.add("default/web", Priority::Normal);
/// assert_eq!(queue.len(), 1);
///
/// let item = queue.get().await.expect("the queue is open");
/// assert_eq!(*item.key(), "default/web");
/// queue.forget(item.key());
/// item.done();
///
/// queue.shutdown();
/// assert!(queue.get().await.is_none());
/// # });
/// ```
pub struct WorkQueue<K: Clone + Eq + Hash, N: Note = ()> {
    shared: Arc<Shared<K, N>>,
}

struct Shared<K: Clone + Eq + Hash, N: Note> {
    state: Mutex<State<K, N>>,
    /// One permit for each thing that a waiter may have to do; every waiter that leaves with a key passes it on while
    /// there is more, so a permit is never lost in a waiter that had something else to do.
    work: Notify,
    /// Wakes those who wait for the drain.
    drained: Notify,
}

/// What waits in a queue, for another queue to carry on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingItem<K> {
    /// The key.
    pub key: K,
    /// How urgent it is.
    pub priority: Priority,
    /// How long it still has to wait.
    pub delay: Duration,
    /// Rate-limited adds since it was last forgotten.
    pub attempts: u32,
}

/// A key that a worker holds. Dropping it is [`done`](Self::done), so that a worker that panics or is cancelled does
/// not keep its key for ever.
pub struct WorkItem<K: Clone + Eq + Hash, N: Note = ()> {
    key: K,
    note: N,
    priority: Priority,
    attempts: u32,
    /// Whether its retries are forgotten when it is let go.
    forget_on_drop: bool,
    shared: Arc<Shared<K, N>>,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(options: WorkQueueOptions) -> Self {
        Self::with_notes(options)
    }

    /// Makes a key ready now. A key that is queued with a lower priority is raised. Returns `false` after a shutdown.
    pub fn add(&self, key: K, priority: Priority) -> bool {
        self.add_with_note(key, (), priority)
    }

    /// Makes a key ready after `delay`, unless it is ready before that anyway. Returns `false` after a shutdown.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) -> bool {
        self.add_with_note_after(key, (), delay, priority)
    }

    /// Makes a key ready after the wait that its retries have earned, and returns that wait; `None` after a shutdown.
    pub fn add_rate_limited(&self, key: K, priority: Priority) -> Option<Duration> {
        self.add_with_note_rate_limited(key, (), priority)
    }
}

impl<K: Clone + Eq + Hash, N: Note> WorkQueue<K, N> {
    /// An empty queue whose adds are noted.
    #[must_use]
    pub fn with_notes(options: WorkQueueOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(options.rate_limit, options.metrics)),
                work: Notify::new(),
                drained: Notify::new(),
            }),
        }
    }

    /// [`add`](WorkQueue::add) with a note.
    pub fn add_with_note(&self, key: K, note: N, priority: Priority) -> bool {
        let added = self.shared.state.lock().add(key, note, priority, Instant::now());
        self.shared.work.notify_one();
        added
    }

    /// [`add_after`](WorkQueue::add_after) with a note, which counts also where the key is ready before that.
    pub fn add_with_note_after(&self, key: K, note: N, delay: Duration, priority: Priority) -> bool {
        let now = Instant::now();
        let added = self.shared.state.lock().add_at(key, note, priority, now + delay, now);
        self.shared.work.notify_one();
        added
    }

    /// [`add_rate_limited`](WorkQueue::add_rate_limited) with a note.
    pub fn add_with_note_rate_limited(&self, key: K, note: N, priority: Priority) -> Option<Duration> {
        let wait = self.shared.state.lock().add_rate_limited(key, note, priority, Instant::now());
        self.shared.work.notify_one();
        wait
    }

    /// Ends the count of a key's retries. Call it for every key that succeeded or is given up, or its count stays.
    pub fn forget(&self, key: &K) {
        self.shared.state.lock().forget(key);
    }

    /// Rate-limited adds of this key since it was last forgotten.
    #[must_use]
    pub fn attempts(&self, key: &K) -> u32 {
        self.shared.state.lock().attempts(key)
    }

    /// How many keys are ready.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state.lock().depth()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next key; `None` once the queue is shut down.
    ///
    /// # Cancellation safety
    /// A call that is dropped has taken no key.
    pub async fn get(&self) -> Option<WorkItem<K, N>> {
        // Mostly there is one: nobody has to wait then, or be registered as one who does.
        if let Some(item) = self.take(&mut self.shared.state.lock()) {
            return Some(item);
        }
        loop {
            let work = self.shared.work.notified();
            tokio::pin!(work);
            // Registered before looking, so that an add between the look and the wait wakes this waiter.
            work.as_mut().enable();
            let due = {
                let mut state = self.shared.state.lock();
                if let Some(item) = self.take(&mut state) {
                    return Some(item);
                }
                if state.mode() != Mode::Open {
                    // A draining queue ends its waiters only when no held key can come back.
                    if state.mode() == Mode::Closed || state.is_drained() {
                        return None;
                    }
                }
                state.next_due()
            };
            match due {
                Some(at) => tokio::select! {
                    () = work => {}
                    () = sleep_until(at) => {}
                },
                None => work.await,
            }
        }
    }

    fn take(&self, state: &mut State<K, N>) -> Option<WorkItem<K, N>> {
        let PoppedItem { key, note, priority, attempts } = state.pop(Instant::now())?;
        if state.has_more() {
            self.shared.work.notify_one();
        }
        Some(WorkItem { key, note, priority, attempts, forget_on_drop: false, shared: Arc::clone(&self.shared) })
    }

    /// Refuses new keys and ends all waiters at once. What was pending can still be [exported](Self::export). Idempotent.
    pub fn shutdown(&self) {
        self.shared.state.lock().shut_down(Mode::Closed);
        self.shared.work.notify_waiters();
        self.shared.drained.notify_waiters();
    }

    /// Refuses new keys, lets workers take what is ready, and waits until none holds a key any more. Delayed keys are
    /// left. Idempotent; a [`shutdown`](Self::shutdown) meanwhile ends the wait.
    ///
    /// # Cancellation safety
    /// Dropping the future ends the wait, not the drain.
    pub async fn shutdown_with_drain(&self) {
        self.shared.state.lock().shut_down(Mode::Draining);
        self.shared.work.notify_waiters();
        loop {
            let drained = self.shared.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            {
                let state = self.shared.state.lock();
                if state.mode() == Mode::Closed || state.is_drained() {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Forgets all that is pending, apart from the keys that workers hold, and gives its memory back: for a queue that was shut
    /// down and from which nothing will be exported.
    pub fn discard(&self) {
        let discarded = self.shared.state.lock().discard();
        drop(discarded);
    }

    /// All that is pending, with its delays and attempts. A key that a worker holds counts: its outcome is not known.
    #[must_use]
    pub fn export(&self) -> Vec<PendingItem<K>> {
        self.shared.state.lock().export(Instant::now())
    }

    /// Adds what another queue exported.
    pub fn import(&self, items: Vec<PendingItem<K>>) {
        self.shared.state.lock().import(items, Instant::now());
        self.shared.work.notify_one();
    }

    /// The queue's gauges (B46).
    #[must_use]
    pub fn snapshot(&self) -> QueueSnapshot {
        self.shared.state.lock().snapshot(Instant::now())
    }
}

impl<K: Clone + Eq + Hash, N: Note> Clone for WorkQueue<K, N> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Clone + Eq + Hash, N: Note> fmt::Debug for WorkQueue<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.snapshot()).finish()
    }
}

impl<K> PendingItem<K> {
    fn new(key: &K, priority: Priority, delay: Duration, attempts: u32) -> Self
    where
        K: Clone,
    {
        Self { key: key.clone(), priority, delay, attempts }
    }
}

impl<K: Clone + Eq + Hash, N: Note> WorkItem<K, N> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// What its adds noted.
    #[must_use]
    pub fn note(&self) -> &N {
        &self.note
    }

    /// What its adds noted, to be taken out of it.
    pub fn note_mut(&mut self) -> &mut N {
        &mut self.note
    }

    /// The priority with which it was taken.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Its rate-limited adds when it was taken.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Ends the count of the key's retries when it is let go: as [`forget`](WorkQueue::forget), without a further look at the queue.
    pub fn forget(&mut self) {
        self.forget_on_drop = true;
    }

    /// Lets go of the key. If it was added meanwhile, it is ready again.
    pub fn done(self) {}
}

impl<K: Clone + Eq + Hash, N: Note> Drop for WorkItem<K, N> {
    fn drop(&mut self) {
        let (ready, draining) = {
            let mut state = self.shared.state.lock();
            state.done(&self.key, self.forget_on_drop, Instant::now());
            (state.depth() > 0, state.mode() == Mode::Draining && state.is_drained())
        };
        if ready {
            self.shared.work.notify_one();
        }
        if draining {
            self.shared.work.notify_waiters();
            self.shared.drained.notify_waiters();
        }
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug, N: Note> fmt::Debug for WorkItem<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkItem")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
