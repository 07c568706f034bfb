//! Reads a recording, line by line and within limits.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use thiserror::Error;

use super::format::{FORMAT, RecordedReconcile, RecordingHead};

/// The maximum length of a line, in bytes. The recorder writes no longer one.
pub(super) const MAX_LINE: u64 = 32 << 20;

/// Why a recording cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{0}; give a file that `pilothouse run --record` has written")]
    Io(#[from] std::io::Error),
    /// A line is too long.
    #[error("line {line} has more than {} bytes, so it is not from `pilothouse run --record`", MAX_LINE)]
    TooLong {
        /// The line's number, from 1.
        line: u64,
    },
    /// The head is missing or has no end: the host ended while it wrote the file.
    #[error(
        "line 1 is not in the format {}: there is no complete line; give a file that `pilothouse run --record` has written",
        FORMAT
    )]
    NoHead,
    /// A line is not in the format.
    #[error(
        "line {line} is not in the format {}: {problem}; give a file that `pilothouse run --record` has written",
        FORMAT
    )]
    Format {
        /// The line's number, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
}

/// Reads the reconciles of one file.
pub struct RecordingReader<R> {
    lines: R,
    head: RecordingHead,
    /// The number of the last line that was read.
    line: u64,
}

impl RecordingReader<BufReader<File>> {
    /// Opens a file and reads its head.
    ///
    /// # Errors
    /// Returns an error if the file is not a recording.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::other("it is not a regular file").into());
        }
        Self::new(BufReader::new(File::open(path)?))
    }
}

impl<R: BufRead> RecordingReader<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// Returns an error if the text is not a recording.
    pub fn new(mut lines: R) -> Result<Self, ReadError> {
        let wrong = |problem: String| ReadError::Format { line: 1, problem };
        let text = read_line(&mut lines, 1)?.ok_or(ReadError::NoHead)?;
        let head: RecordingHead = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if head.format != FORMAT {
            return Err(wrong(format!("the format is {:?}", head.format)));
        }
        Ok(Self { lines, head, line: 1 })
    }

    /// Returns the head.
    #[must_use]
    pub fn head(&self) -> &RecordingHead {
        &self.head
    }

    /// Returns the number of the last line that was read, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next reconcile; `None` after the last. A last line without an end is ignored: the host ended while it wrote.
    ///
    /// # Errors
    /// Returns an error if the line is not a reconcile.
    pub fn next_reconcile(&mut self) -> Result<Option<RecordedReconcile>, ReadError> {
        let line = self.line + 1;
        let Some(text) = read_line(&mut self.lines, line)? else { return Ok(None) };
        self.line = line;
        let reconcile = serde_json::from_slice(&text)
            .map_err(|error| ReadError::Format { line, problem: error.to_string() })?;
        Ok(Some(reconcile))
    }
}

/// Reads a line, without its end; `None` if there is no complete one.
fn read_line(lines: &mut impl BufRead, line: u64) -> Result<Option<Vec<u8>>, ReadError> {
    let mut text = Vec::new();
    lines.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut text)?;
    match text.pop() {
        Some(b'\n') => Ok(Some(text)),
        Some(_) if text.len() as u64 >= MAX_LINE => Err(ReadError::TooLong { line }),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::recording::{RecordedCall, SecretMode};

    fn head() -> RecordingHead {
        RecordingHead {
            format: FORMAT.to_owned(),
            plugin: "p".to_owned(),
            digest: "ab".repeat(32),
            config: json!({"a": 1}),
            secrets: SecretMode::Hashed,
        }
    }

    fn reconcile() -> RecordedReconcile {
        RecordedReconcile {
            time: "2026-01-02T03:04:05Z".to_owned(),
            microseconds: 12,
            watch: "maps".to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
            reasons: vec!["updated".to_owned()],
            attempt: 0,
            extra: vec![("a".to_owned(), "b".to_owned())],
            calls: vec![RecordedCall {
                function: "cache.get".to_owned(),
                arguments: json!({"watch": "maps", "key": "n/a"}),
                answer: json!({"object": null}),
            }],
            result: json!("done"),
        }
    }

    fn text(lines: &[String]) -> Vec<u8> {
        lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let line = |value: &RecordedReconcile| serde_json::to_string(value).expect("JSON");
        let mut other = reconcile();
        other.namespace.clear();
        let head_line = serde_json::to_string(&head()).expect("JSON");
        let mut bytes = text(&[head_line, line(&reconcile()), line(&other)]);
        // The host ended in the middle of a line.
        bytes.extend_from_slice(b"{\"time\":");
        let mut reader = RecordingReader::new(&*bytes).expect("a recording");
        assert_eq!(reader.head(), &head());
        assert_eq!(reader.next_reconcile().expect("a line"), Some(reconcile()));
        assert_eq!((reader.line(), reconcile().key().as_str()), (2, "n/a"));
        assert_eq!(reader.next_reconcile().expect("a line"), Some(other.clone()));
        assert_eq!(other.key(), "a");
        assert_eq!(reader.next_reconcile().expect("the end"), None);
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        let head_line = serde_json::to_string(&head()).expect("JSON");
        let other_format = serde_json::to_string(&RecordingHead { format: "v9".to_owned(), ..head() });
        for (bytes, expected) in [
            (Vec::new(), "line 1 is not in the format"),
            (b"no line".to_vec(), "there is no complete line"),
            (text(&["{}".to_owned()]), "missing field `format`"),
            (text(&[other_format.expect("JSON")]), "the format is \"v9\""),
        ] {
            let error = RecordingReader::new(&*bytes).err().expect("an error").to_string();
            assert!(error.contains(expected), "{error}");
        }
        let bytes = text(&[head_line, "{\"time\": 1}".to_owned()]);
        let mut reader = RecordingReader::new(&*bytes).expect("a recording");
        let error = reader.next_reconcile().expect_err("no reconcile").to_string();
        assert!(error.contains("line 2 is not in the format"), "{error}");
    }

    #[test]
    fn a_line_without_an_end_is_not_read_into_memory() {
        let endless = BufReader::new(std::io::repeat(b'a'));
        let error = RecordingReader::new(endless).err().expect("an error");
        assert!(matches!(error, ReadError::TooLong { line: 1 }), "{error}");
    }
}
