//! Summarises repeated failures: the first ones are written, the others counted.

use std::time::Duration;

use tokio::time::Instant;

/// How many equal failures are written within [`WINDOW`].
const MAX_WRITTEN: u64 = 10;
/// How long equal failures are counted together.
const WINDOW: Duration = Duration::from_secs(10);
/// How many different failures are tracked. The oldest one beyond that is summarised and forgotten.
const MAX_TRACKED: usize = 16;

/// The recent failures, with the time passed in.
#[derive(Default)]
pub(super) struct RepeatedFailures {
    known: Vec<Failure>,
}

struct Failure {
    hash: u64,
    /// The beginning of its text, for the summary.
    text: String,
    since: Instant,
    count: u64,
}

/// Failures that were counted but not written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) text: String,
    pub(super) count: u64,
}

impl RepeatedFailures {
    /// Counts a failure and returns whether to write it. `text` is called if the failure is new.
    pub(super) fn should_write(&mut self, hash: u64, text: impl FnOnce() -> String, now: Instant) -> bool {
        if let Some(known) = self.known.iter_mut().find(|known| known.hash == hash) {
            known.count += 1;
            return known.count <= MAX_WRITTEN;
        }
        self.known.push(Failure { hash, text: text(), since: now, count: 1 });
        true
    }

    /// Returns the summaries that are due: of failures whose window has ended, and of the oldest ones if
    /// there are too many.
    pub(super) fn summaries(&mut self, now: Instant) -> Vec<Summary> {
        let mut ended = Vec::new();
        let has_ended = |known: &Failure| now.saturating_duration_since(known.since) >= WINDOW;
        while self.known.first().is_some_and(|first| has_ended(first) || self.known.len() > MAX_TRACKED) {
            ended.push(self.known.remove(0));
        }
        let summary_of =
            |known: Failure| Summary { count: known.count.saturating_sub(MAX_WRITTEN), text: known.text };
        ended.into_iter().map(summary_of).filter(|summary| summary.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failures_are_written_and_the_others_counted() {
        let start = Instant::now();
        let mut repeats = RepeatedFailures::default();
        let written = (0..1000).filter(|_| repeats.should_write(1, || "it trapped".into(), start)).count();
        assert_eq!(written, 10);
        assert!(repeats.should_write(2, || "something else".into(), start));
        assert_eq!(repeats.summaries(start), []);
        assert_eq!(repeats.summaries(start + WINDOW), [Summary { text: "it trapped".into(), count: 990 }]);
        assert!(repeats.should_write(1, || "it trapped".into(), start + WINDOW));
    }

    #[test]
    fn the_number_of_tracked_failures_is_bounded() {
        let start = Instant::now();
        let mut repeats = RepeatedFailures::default();
        for hash in 0..1000 {
            assert!(repeats.should_write(hash, String::new, start));
            assert_eq!(repeats.summaries(start), []);
            assert!(repeats.known.len() <= MAX_TRACKED);
        }
    }
}
