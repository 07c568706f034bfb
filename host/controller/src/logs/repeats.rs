//! Summarises repeated failures: the first ones are written, the others counted.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// How many equal failures are written within [`WINDOW`].
const MAX_WRITTEN: u64 = 10;
/// How long equal failures are counted together.
const WINDOW: Duration = Duration::from_secs(10);
/// How many different failures are tracked. The oldest one beyond that is summarised and forgotten.
const MAX_TRACKED: usize = 16;
/// How many different keys of one failure are counted.
const MAX_KEYS: usize = 256;

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
    unwritten: FailedKeys,
}

/// The keys of the failures that were not written.
#[derive(Debug, Default, PartialEq, Eq)]
struct FailedKeys {
    first: String,
    /// At most [`MAX_KEYS`] + 1, which stands for any larger number.
    hashes: BTreeSet<u64>,
}

impl FailedKeys {
    fn insert(&mut self, key: FailedKey<'_>) {
        if self.hashes.is_empty() {
            key.text.clone_into(&mut self.first);
        }
        if self.hashes.len() <= MAX_KEYS {
            self.hashes.insert(key.hash);
        }
    }
}

/// The key of a failure.
#[derive(Clone, Copy)]
pub(super) struct FailedKey<'a> {
    pub(super) hash: u64,
    /// The beginning of the key.
    pub(super) text: &'a str,
}

/// Failures that were counted but not written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    text: String,
    count: u64,
    keys: FailedKeys,
}

/// Writes `repeated 3 more times, for default/web: failed: …`.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, count, keys } = self;
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "repeated {count} more time{plural}")?;
        match keys.hashes.len() {
            0 => {}
            1 => write!(f, ", for {}", keys.first)?,
            number if number <= MAX_KEYS => write!(f, ", for {number} keys")?,
            _ => write!(f, ", for more than {MAX_KEYS} keys")?,
        }
        write!(f, ": {text}")
    }
}

impl RepeatedFailures {
    /// Counts a failure and returns whether to write it. `text` is called if the failure is new.
    pub(super) fn should_write(
        &mut self,
        hash: u64,
        text: impl FnOnce() -> String,
        key: Option<FailedKey<'_>>,
        now: Instant,
    ) -> bool {
        let Some(known) = self.known.iter_mut().find(|known| known.hash == hash) else {
            let unwritten = FailedKeys::default();
            self.known.push(Failure { hash, text: text(), since: now, count: 1, unwritten });
            return true;
        };
        known.count += 1;
        if known.count <= MAX_WRITTEN {
            return true;
        }
        if let Some(key) = key {
            known.unwritten.insert(key);
        }
        false
    }

    /// Returns the summaries that are due: of failures whose window has ended, and of the oldest ones if
    /// there are too many.
    pub(super) fn summaries(&mut self, now: Instant) -> Vec<Summary> {
        let mut ended = Vec::new();
        let has_ended = |known: &Failure| now.saturating_duration_since(known.since) >= WINDOW;
        while self.known.first().is_some_and(|first| has_ended(first) || self.known.len() > MAX_TRACKED) {
            ended.push(self.known.remove(0));
        }
        summaries_of(ended)
    }

    /// Returns the summaries of all failures, and forgets them.
    pub(super) fn drain(&mut self) -> Vec<Summary> {
        summaries_of(std::mem::take(&mut self.known))
    }
}

fn summaries_of(failures: Vec<Failure>) -> Vec<Summary> {
    let summary_of = |known: Failure| Summary {
        count: known.count.saturating_sub(MAX_WRITTEN),
        text: known.text,
        keys: known.unwritten,
    };
    failures.into_iter().map(summary_of).filter(|summary| summary.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(summaries: &[Summary]) -> Vec<String> {
        summaries.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_first_failures_are_written_and_the_others_counted() {
        let start = Instant::now();
        let mut repeats = RepeatedFailures::default();
        let written =
            (0..1000).filter(|_| repeats.should_write(1, || "it trapped".into(), None, start)).count();
        assert_eq!(written, 10);
        assert!(repeats.should_write(2, || "something else".into(), None, start));
        assert_eq!(repeats.summaries(start), []);
        assert_eq!(texts(&repeats.summaries(start + WINDOW)), ["repeated 990 more times: it trapped"]);
        assert!(repeats.should_write(1, || "it trapped".into(), None, start + WINDOW));
    }

    #[test]
    fn a_summary_names_the_key_or_the_number_of_keys() {
        let start = Instant::now();
        for (keys, expected) in [
            (1, "repeated 500 more times, for a/0: it trapped"),
            (2, "repeated 500 more times, for 2 keys: it trapped"),
            (256, "repeated 500 more times, for 256 keys: it trapped"),
            (257, "repeated 500 more times, for more than 256 keys: it trapped"),
        ] {
            let mut repeats = RepeatedFailures::default();
            for number in 0..510_u64 {
                let hash = number.saturating_sub(MAX_WRITTEN) % keys;
                let text = format!("a/{hash}");
                let key = Some(FailedKey { hash, text: &text });
                repeats.should_write(1, || "it trapped".into(), key, start);
            }
            assert_eq!(texts(&repeats.summaries(start + WINDOW)), [expected]);
        }
    }

    #[test]
    fn a_drain_returns_what_is_not_due_and_starts_again() {
        let start = Instant::now();
        let mut repeats = RepeatedFailures::default();
        for _ in 0..=MAX_WRITTEN {
            repeats.should_write(1, || "it trapped".into(), None, start);
        }
        assert_eq!(texts(&repeats.drain()), ["repeated 1 more time: it trapped"]);
        assert_eq!(repeats.drain(), []);
        assert!(repeats.should_write(1, || "it trapped".into(), None, start));
    }

    #[test]
    fn the_number_of_tracked_failures_is_bounded() {
        let start = Instant::now();
        let mut repeats = RepeatedFailures::default();
        for hash in 0..1000 {
            assert!(repeats.should_write(hash, String::new, None, start));
            assert_eq!(repeats.summaries(start), []);
            assert!(repeats.known.len() <= MAX_TRACKED);
        }
    }
}
