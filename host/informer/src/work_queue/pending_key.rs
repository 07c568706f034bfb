//! A pending key: as it is exported, and as people see it.

use std::time::Duration;

use super::Priority;

/// A pending key as it is exported from one queue and imported into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingItem<K> {
    /// The key.
    pub key: K,
    /// The priority.
    pub priority: Priority,
    /// The remaining delay.
    pub delay: Duration,
    /// Rate-limited adds since the key was last forgotten.
    pub attempts: u32,
}

/// A pending key, for people who look at the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatus<K> {
    /// The key.
    pub key: K,
    /// What the key waits for.
    pub state: KeyState,
    /// Rate-limited adds since the key was last forgotten.
    pub attempts: u32,
}

/// What a pending key waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// A worker has held it for this time.
    Processing(Duration),
    /// It has been ready for this time.
    Ready(Duration),
    /// It becomes ready after this time.
    Delayed(Duration),
}

impl<K> PendingItem<K> {
    pub(super) fn new(key: &K, priority: Priority, delay: Duration, attempts: u32) -> Self
    where
        K: Clone,
    {
        Self { key: key.clone(), priority, delay, attempts }
    }
}
