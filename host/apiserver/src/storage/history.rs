//! The recent events of a table, within bounds.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Event;

/// How many events of a table are retained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryLimits {
    /// At most this many events.
    pub events: usize,
    /// At most this many bytes of events, approximately. The newest event is always retained.
    pub bytes: usize,
}

/// The most recent events of a table, oldest first.
///
/// Watches and lists at an exact revision are served from it, so its size also bounds how far a slow watch can fall
/// behind.
#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    limits: HistoryLimits,
    /// The history contains every event after this revision.
    complete_after: u64,
}

impl History {
    /// Creates a history that begins after `revision`.
    pub(super) fn new(limits: HistoryLimits, revision: u64) -> Self {
        Self { events: VecDeque::new(), bytes: 0, limits, complete_after: revision }
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.size();
        self.events.push_back(event);
        while self.events.len() > self.limits.events.max(1)
            || (self.bytes > self.limits.bytes && self.events.len() > 1)
        {
            self.evict();
        }
    }

    /// Discards the events up to `revision`.
    pub(super) fn compact(&mut self, revision: u64) {
        while self.events.front().is_some_and(|event| event.revision() <= revision) {
            self.evict();
        }
        self.complete_after = self.complete_after.max(revision);
    }

    fn evict(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.size();
            self.complete_after = event.revision();
        }
    }

    /// Returns the revision after which the history is complete.
    pub(super) fn complete_after(&self) -> u64 {
        self.complete_after
    }

    /// Returns the events after `revision`, oldest first, or `None` if some of them have been discarded.
    pub(super) fn after(
        &self,
        revision: u64,
    ) -> Option<impl DoubleEndedIterator<Item = &Arc<Event>> + ExactSizeIterator> {
        if revision < self.complete_after {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision() <= revision);
        Some(self.events.range(start..))
    }
}
