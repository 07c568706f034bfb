//! Summarises repeated failures: the first ones are written, the others counted.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// How many equal failures are written within [`WINDOW`].
const MAX_WRITTEN: usize = 10;
/// How many of these are written for one key, which is tried again after milliseconds at first.
const MAX_WRITTEN_PER_KEY: usize = 3;
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
    /// The keys of the failures that were written, if they have one.
    written: Vec<Option<u64>>,
    unwritten: Unwritten,
}

/// The failures that were not written.
#[derive(Debug, Default, PartialEq, Eq)]
struct Unwritten {
    count: u64,
    /// What follows from the last one.
    then: String,
    keys: FailedKeys,
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
    unwritten: Unwritten,
}

/// Writes `repeated 3 more times, for default/web: failed: …; tried again in 2.56s`, with the last delay if they have the same key.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, unwritten: Unwritten { count, then, keys } } = self;
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "repeated {count} more time{plural}")?;
        match keys.hashes.len() {
            0 => {}
            1 => write!(f, ", for {}", keys.first)?,
            number if number <= MAX_KEYS => write!(f, ", for {number} keys")?,
            _ => write!(f, ", for more than {MAX_KEYS} keys")?,
        }
        write!(f, ": {text}")?;
        if keys.hashes.len() == 1 { write!(f, "; {then}") } else { Ok(()) }
    }
}

impl RepeatedFailures {
    /// Counts a failure and returns whether to write it. `text` is called if the failure is new, and `then`, what follows from the failure,
    /// if it is not written.
    pub(super) fn should_write(
        &mut self,
        hash: u64,
        text: impl FnOnce() -> String,
        then: impl FnOnce() -> String,
        key: Option<FailedKey<'_>>,
        now: Instant,
    ) -> bool {
        let key_hash = key.map(|key| key.hash);
        let Some(known) = self.known.iter_mut().find(|known| known.hash == hash) else {
            let (written, unwritten) = (vec![key_hash], Unwritten::default());
            self.known.push(Failure { hash, text: text(), since: now, written, unwritten });
            return true;
        };
        let of_key =
            known.written.iter().filter(|written| written.is_some() && **written == key_hash).count();
        if known.written.len() < MAX_WRITTEN && of_key < MAX_WRITTEN_PER_KEY {
            known.written.push(key_hash);
            return true;
        }
        known.unwritten.count += 1;
        known.unwritten.then = then();
        if let Some(key) = key {
            known.unwritten.keys.insert(key);
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
    let summary_of = |known: Failure| Summary { text: known.text, unwritten: known.unwritten };
    failures.into_iter().map(summary_of).filter(|summary| summary.unwritten.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(summaries: &[Summary]) -> Vec<String> {
        summaries.iter().map(ToString::to_string).collect()
    }

    /// Counts a trap at a key.
    fn trap(repeats: &mut RepeatedFailures, key: Option<u64>, now: Instant) -> bool {
        let text = key.map(|key| format!("a/{key}")).unwrap_or_default();
        let key = key.map(|hash| FailedKey { hash, text: &text });
        repeats.should_write(1, || "it trapped".into(), || "tried again in 2s".into(), key, now)
    }

    #[test]
    fn the_first_failures_are_written_and_the_others_counted() {
        let start = Instant::now();
        let mut repeats = RepeatedFailures::default();
        let written = (0..1000).filter(|_| trap(&mut repeats, None, start)).count();
        assert_eq!(written, 10);
        assert!(repeats.should_write(2, || "something else".into(), String::new, None, start));
        assert_eq!(repeats.summaries(start), []);
        assert_eq!(texts(&repeats.summaries(start + WINDOW)), ["repeated 990 more times: it trapped"]);
        assert!(trap(&mut repeats, None, start + WINDOW));
    }

    #[test]
    fn a_key_does_not_use_up_the_lines_of_other_keys() {
        let start = Instant::now();
        let mut repeats = RepeatedFailures::default();
        for key in 0..5 {
            let written = (0..100).filter(|_| trap(&mut repeats, Some(key), start)).count();
            assert_eq!(written, [3, 3, 3, 1, 0][usize::try_from(key).expect("small")], "key {key}");
        }
        assert_eq!(texts(&repeats.drain()), ["repeated 490 more times, for 5 keys: it trapped"]);
    }

    #[test]
    fn a_summary_names_the_key_or_the_number_of_keys() {
        let start = Instant::now();
        for (keys, expected) in [
            (1, "repeated 500 more times, for a/0: it trapped; tried again in 2s"),
            (2, "repeated 500 more times, for 2 keys: it trapped"),
            (256, "repeated 500 more times, for 256 keys: it trapped"),
            (257, "repeated 500 more times, for more than 256 keys: it trapped"),
        ] {
            let mut repeats = RepeatedFailures::default();
            (0..10).for_each(|key| assert!(trap(&mut repeats, Some(1000 + key), start)));
            (0..500).for_each(|number| assert!(!trap(&mut repeats, Some(number % keys), start)));
            assert_eq!(texts(&repeats.summaries(start + WINDOW)), [expected]);
        }
    }

    #[test]
    fn a_drain_returns_what_is_not_due_and_starts_again() {
        let start = Instant::now();
        let mut repeats = RepeatedFailures::default();
        for _ in 0..=MAX_WRITTEN {
            trap(&mut repeats, None, start);
        }
        assert_eq!(texts(&repeats.drain()), ["repeated 1 more time: it trapped"]);
        assert_eq!(repeats.drain(), []);
        assert!(trap(&mut repeats, None, start));
    }

    #[test]
    fn the_number_of_tracked_failures_is_bounded() {
        let start = Instant::now();
        let mut repeats = RepeatedFailures::default();
        for hash in 0..1000 {
            assert!(repeats.should_write(hash, String::new, String::new, None, start));
            assert_eq!(repeats.summaries(start), []);
            assert!(repeats.known.len() <= MAX_TRACKED);
        }
    }
}
