//! Summarises repeated failures: the first ones are written, the others counted.

use std::time::Duration;

use tokio::time::Instant;

/// How many equal failures are written within [`WINDOW`].
const WRITTEN: u64 = 10;
/// How long equal failures are counted together.
const WINDOW: Duration = Duration::from_secs(10);
/// How many different failures are tracked. The oldest one beyond that is summarised and forgotten.
const KNOWN: usize = 16;

/// The recent failures, with the time passed in.
#[derive(Default)]
pub(super) struct Repeats {
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

impl Repeats {
    /// Counts a failure and returns whether to write it. `text` is called if the failure is new.
    pub(super) fn is_written(&mut self, hash: u64, text: impl FnOnce() -> String, now: Instant) -> bool {
        if let Some(known) = self.known.iter_mut().find(|known| known.hash == hash) {
            known.count += 1;
            return known.count <= WRITTEN;
        }
        self.known.push(Failure { hash, text: text(), since: now, count: 1 });
        true
    }

    /// Returns the summaries that are due: of failures whose window has ended, and of the oldest ones if
    /// there are too many.
    pub(super) fn summaries(&mut self, now: Instant) -> Vec<Summary> {
        let mut over = Vec::new();
        let is_over = |known: &Failure| now.saturating_duration_since(known.since) >= WINDOW;
        while self.known.first().is_some_and(|first| is_over(first) || self.known.len() > KNOWN) {
            over.push(self.known.remove(0));
        }
        let unwritten =
            |known: Failure| Summary { count: known.count.saturating_sub(WRITTEN), text: known.text };
        over.into_iter().map(unwritten).filter(|summary| summary.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failures_are_written_and_the_others_counted() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        let written = (0..1000).filter(|_| repeats.is_written(1, || "it trapped".into(), start)).count();
        assert_eq!(written, 10);
        assert!(repeats.is_written(2, || "something else".into(), start));
        assert_eq!(repeats.summaries(start), []);
        assert_eq!(repeats.summaries(start + WINDOW), [Summary { text: "it trapped".into(), count: 990 }]);
        assert!(repeats.is_written(1, || "it trapped".into(), start + WINDOW));
    }

    #[test]
    fn failures_that_all_differ_take_no_memory_without_end() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        for hash in 0..1000 {
            assert!(repeats.is_written(hash, String::new, start));
            assert_eq!(repeats.summaries(start), []);
            assert!(repeats.known.len() <= KNOWN);
        }
    }
}
