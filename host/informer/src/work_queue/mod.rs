//! The work queue: a deduplicating queue of keys to reconcile, with delays, retries and priorities (client-go's `workqueue`,
//! controller-runtime's `priorityqueue`).

mod exponential_backoff;
mod metrics;
#[cfg(test)]
mod model_tests;
mod options;
mod pending_key;
mod rate_limit;
mod state;
#[cfg(test)]
mod tests;
mod work_item;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub use exponential_backoff::ExponentialBackoff;
pub use metrics::{NoMetrics, QueueMetrics, QueueSnapshot, names};
pub use options::WorkQueueOptions;
pub use pending_key::{KeyState, KeyStatus, PendingItem};
pub use rate_limit::{RateLimit, TokenBucket};
use state::{Mode, PoppedItem, State};
pub use work_item::WorkItem;

/// The priority of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// For keys from an initial list, a resync or a reload. They wait behind live changes, but one pop in ten takes the oldest of
    /// them, so that none starves.
    Low,
    /// For live changes.
    Normal,
}

/// Data that travels with a key to the worker that takes it. The payloads of several adds are merged.
pub trait KeyPayload: Default + Send + 'static {
    /// Merges the payload of a further add of the same key.
    fn merge(&mut self, other: Self);

    /// Whether a delayed key becomes ready at [`WorkQueue::reset_retries`], as if it waited for a retry; false by default.
    fn ends_with_reset(&self) -> bool {
        false
    }
}

impl KeyPayload for () {
    fn merge(&mut self, (): Self) {}
}

/// A deduplicating queue of keys for workers. Cloning makes another handle to the same queue.
///
/// - A key that is added several times while it is queued is queued once. A key that is added while a worker holds it is
///   queued once more when the worker is done. Two workers never hold the same key.
/// - A key has one due time: the earlier of two adds wins, so an immediate add replaces a delayed one.
/// - Only [`add_rate_limited`](Self::add_rate_limited) is rate-limited.
/// - Ready keys leave in order of arrival, live changes before low-priority keys. A delayed or retried key arrives when its delay
///   ends.
///
/// The worker that takes a key receives the merged payload of all adds since it was last taken. [`export`](Self::export) does not
/// include the payloads.
///
/// Memory: one entry for each key that is queued, is held, or has failed since it was last forgotten.
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
pub struct WorkQueue<K: Clone + Eq + Hash, N: KeyPayload = ()> {
    shared: Arc<Shared<K, N>>,
}

struct Shared<K: Clone + Eq + Hash, N: KeyPayload> {
    state: Mutex<State<K, N>>,
    /// Wakes one waiter whenever there may be work. A waiter that leaves with a key wakes the next one while there is more, so
    /// no wake-up is lost in a waiter that found other work.
    work: Notify,
    /// Wakes the tasks that wait for the drain.
    drained: Notify,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(options: WorkQueueOptions) -> Self {
        Self::with_payloads(options)
    }

    /// Queues a key. A key that is queued with a lower priority is raised to this one. Returns `false` after a shutdown.
    pub fn add(&self, key: K, priority: Priority) -> bool {
        self.add_with_payload(key, (), priority)
    }

    /// Queues a key after `delay`, unless it becomes ready earlier anyway. Returns `false` after a shutdown.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) -> bool {
        self.add_with_payload_after(key, (), delay, priority)
    }

    /// Queues a key after the delay that its number of retries requires. Returns the delay, or `None` after a shutdown.
    pub fn add_rate_limited(&self, key: K, priority: Priority) -> Option<Duration> {
        self.add_with_payload_rate_limited(key, (), priority)
    }
}

impl<K: Clone + Eq + Hash, N: KeyPayload> WorkQueue<K, N> {
    /// Creates an empty queue whose adds carry payloads.
    #[must_use]
    pub fn with_payloads(options: WorkQueueOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(options.rate_limit, options.metrics)),
                work: Notify::new(),
                drained: Notify::new(),
            }),
        }
    }

    /// Like [`add`](WorkQueue::add), with a payload.
    pub fn add_with_payload(&self, key: K, payload: N, priority: Priority) -> bool {
        let added = self.shared.state.lock().add(key, payload, priority, Instant::now());
        self.shared.work.notify_one();
        added
    }

    /// Like [`add_after`](WorkQueue::add_after), with a payload. The payload is merged even if the key becomes ready earlier.
    pub fn add_with_payload_after(&self, key: K, payload: N, delay: Duration, priority: Priority) -> bool {
        let now = Instant::now();
        let added = self.shared.state.lock().add_at(key, payload, priority, now + delay, now);
        self.shared.work.notify_one();
        added
    }

    /// Like [`add_rate_limited`](WorkQueue::add_rate_limited), with a payload.
    pub fn add_with_payload_rate_limited(&self, key: K, payload: N, priority: Priority) -> Option<Duration> {
        let wait = self.shared.state.lock().add_rate_limited(key, payload, priority, Instant::now());
        self.shared.work.notify_one();
        wait
    }

    /// Resets a key's retry count. Call it for every key that succeeded or was given up; otherwise its count is kept.
    pub fn forget(&self, key: &K) {
        self.shared.state.lock().forget(key);
    }

    /// Resets the retry counts of all keys, and makes the keys ready that wait for a retry, or whose payload
    /// [ends its delay](KeyPayload::ends_with_reset). Other delays are kept. Call it when the reason for the failures may be gone, for example
    /// because the code that processes the keys was replaced.
    pub fn reset_retries(&self) {
        self.shared.state.lock().reset_retries(Instant::now());
        self.shared.work.notify_one();
    }

    /// Returns the number of rate-limited adds of this key since it was last forgotten (client-go's `NumRequeues`).
    #[must_use]
    pub fn attempts(&self, key: &K) -> u32 {
        self.shared.state.lock().attempts(key)
    }

    /// Returns the number of ready keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state.lock().depth()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next key. Returns `None` once the queue is shut down.
    ///
    /// # Cancellation safety
    /// This method is cancel safe: a call that is dropped has taken no key.
    pub async fn get(&self) -> Option<WorkItem<K, N>> {
        // Usually a key is ready, and the waiter need not be registered.
        if let Some(item) = self.take(&mut self.shared.state.lock()) {
            return Some(item);
        }
        loop {
            let work = self.shared.work.notified();
            tokio::pin!(work);
            // Registered before the check, so that an add between the check and the wait wakes this waiter.
            work.as_mut().enable();
            let due = {
                let mut state = self.shared.state.lock();
                if let Some(item) = self.take(&mut state) {
                    return Some(item);
                }
                if state.mode() != Mode::Open {
                    // A draining queue ends its waiters only once no held key can be queued again.
                    if state.mode() == Mode::Closed || state.is_drained() {
                        return None;
                    }
                }
                state.next_due()
            };
            match due {
                Some(at) => tokio::select! {
                    // `biased` keeps simulations repeatable. The order of the branches has no effect.
                    biased;
                    () = work => {}
                    () = sleep_until(at) => {}
                },
                None => work.await,
            }
        }
    }

    fn take(&self, state: &mut State<K, N>) -> Option<WorkItem<K, N>> {
        let PoppedItem { key, payload, priority, attempts, ready_for } = state.pop(Instant::now())?;
        if state.has_more() {
            self.shared.work.notify_one();
        }
        Some(WorkItem {
            key,
            payload,
            priority,
            attempts,
            ready_for,
            forget_on_drop: false,
            shared: Arc::clone(&self.shared),
        })
    }

    /// Rejects new keys and ends all waiters at once. Pending keys can still be [exported](Self::export). Idempotent.
    pub fn shutdown(&self) {
        self.shared.state.lock().shut_down(Mode::Closed);
        self.shared.work.notify_waiters();
        self.shared.drained.notify_waiters();
    }

    /// Rejects new keys, lets workers take the ready keys, and waits until no worker holds a key. Delayed keys are not
    /// processed. Idempotent; a concurrent [`shutdown`](Self::shutdown) ends the wait.
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

    /// Drops all pending keys except those that workers hold, and frees their memory. For a queue that was shut down and will not
    /// be exported.
    pub fn discard(&self) {
        let discarded = self.shared.state.lock().discard();
        drop(discarded);
    }

    /// Returns all pending keys with their delays and attempts, for programs that replace a queue. Keys that workers hold are included, because their outcome is not known.
    #[must_use]
    pub fn export(&self) -> Vec<PendingItem<K>> {
        self.shared.state.lock().export(Instant::now())
    }

    /// Adds the keys that another queue exported.
    pub fn import(&self, items: Vec<PendingItem<K>>) {
        self.shared.state.lock().import(items, Instant::now());
        self.shared.work.notify_one();
    }

    /// Whether a key is queued, delayed or held, or has failed since it was last forgotten.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.shared.state.lock().contains(key)
    }

    /// Returns what a key waits for; `None` if it is not pending.
    #[must_use]
    pub fn status(&self, key: &K) -> Option<KeyStatus<K>> {
        self.shared.state.lock().status(key, Instant::now())
    }

    /// Returns up to `limit` pending keys: those that workers hold, the longest first, those that wait for a retry, ready keys, and the
    /// other delayed keys.
    #[must_use]
    pub fn list(&self, limit: usize) -> Vec<KeyStatus<K>> {
        self.shared.state.lock().list(limit, Instant::now())
    }

    /// Returns the queue's gauges.
    #[must_use]
    pub fn snapshot(&self) -> QueueSnapshot {
        self.shared.state.lock().snapshot(Instant::now())
    }
}

impl<K: Clone + Eq + Hash, N: KeyPayload> Clone for WorkQueue<K, N> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Clone + Eq + Hash, N: KeyPayload> fmt::Debug for WorkQueue<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.snapshot()).finish()
    }
}
