//! A key that a worker holds, and its release.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::state::Mode;
use super::{KeyPayload, Priority, Shared};

/// A key that a worker holds. Dropping it has the effect of [`done`](Self::done), so a worker that panics or is cancelled does
/// not hold its key forever.
pub struct WorkItem<K: Clone + Eq + Hash, N: KeyPayload = ()> {
    pub(super) key: K,
    pub(super) payload: N,
    pub(super) priority: Priority,
    pub(super) attempts: u32,
    pub(super) ready_for: Duration,
    /// Whether the retry count is reset when the key is released.
    pub(super) forget_on_drop: bool,
    pub(super) shared: Arc<Shared<K, N>>,
}

impl<K: Clone + Eq + Hash, N: KeyPayload> WorkItem<K, N> {
    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the merged payload of the key's adds.
    #[must_use]
    pub fn payload(&self) -> &N {
        &self.payload
    }

    /// Returns the merged payload of the key's adds, for taking data out of it.
    pub fn payload_mut(&mut self) -> &mut N {
        &mut self.payload
    }

    /// Returns the priority with which the key was taken.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Returns the number of rate-limited adds when the key was taken.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns for how long the key was ready before it was taken.
    #[must_use]
    pub fn ready_for(&self) -> Duration {
        self.ready_for
    }

    /// Resets the key's retry count when the key is released. Like [`forget`](super::WorkQueue::forget), without locking the queue once
    /// more.
    pub fn forget(&mut self) {
        self.forget_on_drop = true;
    }

    /// Releases the key. If it was added meanwhile, it becomes ready again.
    pub fn done(self) {}
}

impl<K: Clone + Eq + Hash, N: KeyPayload> Drop for WorkItem<K, N> {
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

impl<K: Clone + Eq + Hash + fmt::Debug, N: KeyPayload> fmt::Debug for WorkItem<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkItem")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
