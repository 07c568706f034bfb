use std::collections::VecDeque;
use std::sync::Arc;

use super::Event;

/// How much of a table's past is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryLimits {
    /// At most this many events.
    pub events: usize,
    /// At most about this many bytes of events; the newest event is kept whatever its size.
    pub bytes: usize,
}

/// The last events of a table, oldest first. It is what watches and exact lists are served from, so it also bounds
/// how far a slow watcher may fall behind.
#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    limits: HistoryLimits,
    /// Every event after this revision is here.
    complete_after: u64,
}

impl History {
    /// A history that begins after `revision`.
    pub(super) fn new(limits: HistoryLimits, revision: u64) -> Self {
        Self { events: VecDeque::new(), bytes: 0, limits, complete_after: revision }
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.weight();
        self.events.push_back(event);
        while self.events.len() > self.limits.events.max(1)
            || (self.bytes > self.limits.bytes && self.events.len() > 1)
        {
            self.evict();
        }
    }

    /// Forgets everything up to `revision`.
    pub(super) fn compact(&mut self, revision: u64) {
        while self.events.front().is_some_and(|event| event.revision() <= revision) {
            self.evict();
        }
        self.complete_after = self.complete_after.max(revision);
    }

    fn evict(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.weight();
            self.complete_after = event.revision();
        }
    }

    /// The revision after which nothing is missing.
    pub(super) fn complete_after(&self) -> u64 {
        self.complete_after
    }

    /// The events after `revision`, oldest first; none when some of them are forgotten.
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
