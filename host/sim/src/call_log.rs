//! The calls of one or several runs as text, in a form that two processes can compare.
//!
//! A call is whatever is part of the hash of a run: a call of a guest, its result, each call of a host function with the answer, and each
//! [event](crate::run::Event).

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::finding::divergence::{Divergence, first_difference};

/// The format of this version.
const FORMAT: &str = "pilothouse.dev/simulation-calls/v1";
/// Limit in bytes for all texts of a log. Of later calls, only the number and the last hash are known.
const MAX_TEXTS: usize = 16 << 20;
/// Limit in bytes for one text.
const MAX_TEXT: usize = 16 << 10;
/// Limit in bytes for a log that is read: JSON writes a byte as up to six.
pub const MAX_SIZE: u64 = 8 * (MAX_TEXTS as u64);
/// The number of characters of a text that are always shown.
const HEAD: usize = 120;
/// The number of characters that are shown before and after the first difference.
const CONTEXT: usize = 160;

/// The calls of one or several runs, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLog {
    calls: Vec<RecordedCall>,
    bytes: usize,
    count: u64,
    hash: u64,
    /// What the hashes of the current run's calls are combined with, so that a difference in an earlier run stays one.
    earlier_runs: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RecordedCall {
    /// The rolling hash of the run after the call.
    hash: u64,
    text: String,
}

/// The first line of a log.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: String,
    count: u64,
    hash: String,
}

impl CallLog {
    /// Begins a further run, whose rolling hash begins anew.
    pub(crate) fn begin_run(&mut self, text: String) {
        self.earlier_runs = self.hash;
        let hash =
            text.bytes().fold(0, |hash: u64, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
        self.push(hash, text);
    }

    /// Adds a call. `hash` is the rolling hash of its run after it.
    pub(crate) fn push(&mut self, hash: u64, text: String) {
        self.push_combined(hash ^ self.earlier_runs.rotate_left(1), text);
    }

    fn push_combined(&mut self, hash: u64, mut text: String) {
        let is_complete = u64::try_from(self.calls.len()) == Ok(self.count);
        self.count += 1;
        self.hash = hash;
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        if is_complete && self.bytes + text.len() <= MAX_TEXTS {
            self.bytes += text.len();
            self.calls.push(RecordedCall { hash, text });
        }
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the hash of the run; of several runs, one that depends on all of them.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the first call that differs, with both sides.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<Divergence> {
        if (self.count, self.hash) == (other.count, other.hash) {
            return None;
        }
        let hashes = |log: &Self| log.calls.iter().map(|call| call.hash).collect::<Vec<_>>();
        let common = self.calls.len().min(other.calls.len());
        let index = first_difference(&hashes(self), &hashes(other)).unwrap_or(common);
        let (expected, found) = excerpts(self.text(index), other.text(index));
        Some(Divergence { index, expected, found })
    }

    fn text(&self, index: usize) -> &str {
        match self.calls.get(index) {
            Some(call) => &call.text,
            None if u64::try_from(index).is_ok_and(|index| index < self.count) => {
                "this call or a later one; the run has too many to record all"
            }
            None => "the run has ended",
        }
    }

    /// Writes the log, one line for each call.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn write(&self, writer: &mut impl Write) -> io::Result<()> {
        let hash = format!("{:016x}", self.hash);
        let head = Head { format: FORMAT.to_owned(), count: self.count, hash };
        writeln!(writer, "{}", serde_json::to_string(&head)?)?;
        for call in &self.calls {
            let line = (format!("{:016x}", call.hash), &call.text);
            writeln!(writer, "{}", serde_json::to_string(&line)?)?;
        }
        writer.flush()
    }

    /// Reads a log that another process has written. The caller bounds the reader by [`MAX_SIZE`].
    ///
    /// # Errors
    /// Returns what is wrong if the reader fails, or if this is no log of this version.
    pub fn read(reader: impl BufRead) -> Result<Self, String> {
        let mut lines = reader.lines().map(|line| line.map_err(|error| error.to_string()));
        let head = lines.next().ok_or("it is empty")??;
        let head: Head = serde_json::from_str(&head).map_err(|error| format!("line 1: {error}"))?;
        if head.format != FORMAT {
            return Err(format!(
                "its format is {:?} and not {FORMAT:?}",
                head.format.chars().take(80).collect::<String>()
            ));
        }
        let mut log = Self::default();
        for (number, line) in (2_u64..).zip(lines) {
            let (hash, text): (String, String) =
                serde_json::from_str(&line?).map_err(|error| format!("line {number}: {error}"))?;
            log.push_combined(
                parse_hash(&hash).map_err(|problem| format!("line {number}: {problem}"))?,
                text,
            );
        }
        if log.count > head.count {
            return Err(format!("it has {} calls, its first line says {}", log.count, head.count));
        }
        log.count = head.count;
        log.hash = parse_hash(&head.hash).map_err(|problem| format!("line 1: {problem}"))?;
        Ok(log)
    }
}

fn parse_hash(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|error| format!("the hash cannot be read: {error}"))
}

/// Returns what is shown of two texts: their beginning, and the part around the first difference.
fn excerpts(left: &str, right: &str) -> (String, String) {
    let common = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
    let is_hidden = left == right;
    let show = |text: &str| {
        let note = if is_hidden { " (the difference is in the part that was not recorded)" } else { "" };
        format!("{}{note}", excerpt(text, if is_hidden { 0 } else { common }))
    };
    (show(left), show(right))
}

fn excerpt(text: &str, difference: usize) -> String {
    let start = difference.saturating_sub(CONTEXT);
    let (from, head) = if start <= HEAD {
        (0, String::new())
    } else {
        (start, text.chars().take(HEAD).chain(" … ".chars()).collect())
    };
    let end = difference.max(HEAD) + CONTEXT;
    let shown: String = text.chars().skip(from).take(end - from).collect();
    let rest = if text.chars().nth(end).is_some() { " …" } else { "" };
    format!("{head}{shown}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(texts: &[&str]) -> CallLog {
        let mut log = CallLog::default();
        let mut hash = 7_u64;
        for text in texts {
            hash = text.bytes().fold(hash, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
            log.push(hash, (*text).to_owned());
        }
        log
    }

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let log = log(&["the host starts", "get \"a\"\nsecond line"]);
        let mut bytes = Vec::new();
        log.write(&mut bytes).expect("written");
        assert_eq!(CallLog::read(bytes.as_slice()), Ok(log));
    }

    #[test]
    fn other_texts_are_refused_with_the_line() {
        let read = |text: &str| CallLog::read(text.as_bytes()).expect_err(text);
        assert_eq!(read(""), "it is empty");
        assert!(read("hash").starts_with("line 1: "));
        assert!(read(r#"{"format": "a", "count": 0, "hash": "0"}"#).contains("its format is \"a\""));
        let head = r#"{"format": "pilothouse.dev/simulation-calls/v1", "count": 1, "hash": "0"}"#;
        assert!(read(&format!("{head}\n[1]")).starts_with("line 2: "));
        assert!(read(&format!("{head}\n[\"x\", \"a\"]")).starts_with("line 2: the hash"));
        assert!(read(&format!("{head}\n[\"0\", \"a\"]\n[\"0\", \"b\"]")).contains("its first line says 1"));
    }

    #[test]
    fn the_first_call_that_differs_is_shown_with_both_sides() {
        let left = log(&["start", "get a", "end"]);
        assert_eq!(left.difference(&left), None);
        let divergence = left.difference(&log(&["start", "get b", "end"])).expect("different");
        assert_eq!(
            (divergence.index, divergence.expected.as_str(), divergence.found.as_str()),
            (1, "get a", "get b")
        );
        let shorter = left.difference(&log(&["start", "get a"])).expect("different");
        assert_eq!(
            (shorter.index, shorter.expected.as_str(), shorter.found.as_str()),
            (2, "end", "the run has ended")
        );
    }

    #[test]
    fn a_difference_in_an_earlier_run_is_found() {
        let runs = |first: &str| {
            let mut all = CallLog::default();
            for text in [first, "the same"] {
                all.begin_run(format!("run {}", all.count()));
                all.push(7 + u64::from(text == "b"), text.to_owned());
            }
            all
        };
        assert_eq!(runs("a").difference(&runs("a")), None);
        let divergence = runs("a").difference(&runs("b")).expect("different");
        assert_eq!((divergence.index, divergence.expected.as_str()), (1, "a"));
        let mut bytes = Vec::new();
        runs("b").write(&mut bytes).expect("written");
        let read = CallLog::read(bytes.as_slice()).expect("a log");
        assert_eq!(runs("b").difference(&read), None);
        assert_eq!(runs("a").difference(&read).expect("different").index, 1);
    }

    #[test]
    fn of_long_texts_the_part_with_the_difference_is_shown() {
        let text = |end: &str| format!("create {}{end}{}", "x".repeat(5_000), "y".repeat(5_000));
        let divergence = log(&[&text("1")]).difference(&log(&[&text("2")])).expect("different");
        for (shown, part) in [(&divergence.expected, "x1y"), (&divergence.found, "x2y")] {
            assert!(shown.starts_with("create xx") && shown.contains(part), "{shown}");
            assert!(shown.chars().count() < HEAD + 2 * CONTEXT + 20, "{shown}");
        }
    }

    #[test]
    fn calls_beyond_the_limit_are_counted_and_part_of_the_comparison() {
        let long = "x".repeat(MAX_TEXT);
        let mut texts = vec![long.as_str(); MAX_TEXTS / MAX_TEXT];
        texts.push("one more");
        let left = log(&texts);
        assert_eq!((left.calls.len() + 1, left.count()), (texts.len(), texts.len() as u64));
        texts.pop();
        texts.push("another one");
        let divergence = left.difference(&log(&texts)).expect("different");
        assert_eq!(divergence.index, texts.len() - 1);
        assert!(divergence.expected.contains("too many"), "{divergence:?}");
        let hidden = "x".repeat(MAX_TEXT + 1);
        let divergence = log(&[&long]).difference(&log(&[&hidden])).expect("different");
        assert!(divergence.found.contains("was not recorded"), "{divergence:?}");
    }
}
