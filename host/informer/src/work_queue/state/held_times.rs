//! The times at which the held keys were taken.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// When the held keys were taken, in order. A worker holds one key, so there are few.
#[derive(Default)]
pub(super) struct HeldTimes(VecDeque<Instant>);

impl HeldTimes {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn insert(&mut self, since: Instant) {
        // Nearly always at the end, because time does not go back.
        let earlier = self.0.iter().rposition(|earlier| *earlier <= since);
        self.0.insert(earlier.map_or(0, |position| position + 1), since);
    }

    pub(super) fn remove(&mut self, since: Instant) {
        let position = self.0.partition_point(|earlier| *earlier < since);
        self.0.remove(position);
    }

    /// For how long the keys have been held, the longest first.
    pub(super) fn durations(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.0.iter().map(move |since| now.saturating_duration_since(*since))
    }
}
