//! What the queue knows of one key.

use tokio::time::Instant;

use super::super::{KeyPayload, Priority};

/// The state of a key: ready, delayed, or neither. Independently of that, a worker may hold it.
///
/// Invariants: a key is never both ready and delayed, because the earlier time wins. A key that a worker holds is never ready;
/// if it is added, it becomes `dirty` (as in client-go) and is made ready when the worker releases it. `ready` and `delayed`
/// are the only copies of the positions in `State::ready` and `State::delayed`.
pub(super) struct Entry<N> {
    pub(super) ready: Option<Ready>,
    pub(super) delayed: Option<Delayed>,
    pub(super) held_since: Option<Instant>,
    /// Added while held: the time of the first such add, and the highest priority.
    pub(super) dirty: Option<(Instant, Priority)>,
    /// Rate-limited adds since the last `forget`.
    pub(super) failures: u32,
    /// The merged payload of the adds since a worker last took the key.
    pub(super) payload: N,
}

#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) priority: Priority,
    pub(super) position: u64,
    pub(super) since: Instant,
}

#[derive(Clone, Copy)]
pub(super) struct Delayed {
    pub(super) at: Instant,
    pub(super) position: u64,
    pub(super) priority: Priority,
}

impl<N: KeyPayload> Entry<N> {
    pub(super) fn new() -> Self {
        Self { ready: None, delayed: None, held_since: None, dirty: None, failures: 0, payload: N::default() }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_none()
            && self.delayed.is_none()
            && self.held_since.is_none()
            && self.dirty.is_none()
            && self.failures == 0
    }

    /// Whether the key waits for a retry.
    pub(super) fn is_backing_off(&self) -> bool {
        self.failures > 0 && self.delayed.is_some()
    }
}
