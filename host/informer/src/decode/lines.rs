//! Splits a watch body into lines.

use super::DecodeError;
use super::utf8::utf8_part;

/// Splits a body into lines. A line within one chunk is not copied; only the unfinished line at the end of a chunk is
/// buffered, up to a limit.
pub(crate) struct LineSplitter {
    /// The beginning of a line whose end has not arrived yet.
    partial_line: Vec<u8>,
    limit: usize,
}

/// Reads the lines of a body.
pub(crate) trait LineHandler {
    /// Why reading stops.
    type Error: From<DecodeError>;

    /// Reads the line that `text` starts with, if that is possible without searching for its end. Returns the length of the line,
    /// line ending included.
    fn read_prefix(&mut self, text: &str) -> Result<Option<usize>, Self::Error>;

    /// Reads a line, which is passed without its line ending.
    fn read_line(&mut self, line: &[u8]) -> Result<(), Self::Error>;
}

impl LineSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { partial_line: Vec::new(), limit }
    }

    /// Passes each line that `chunk` completes to `lines`. Skips empty lines and stops at the first error.
    pub(crate) fn feed<R: LineHandler>(&mut self, chunk: &[u8], lines: &mut R) -> Result<(), R::Error> {
        // A line that the chunk leaves unfinished cannot be decoded yet.
        let complete = memchr::memrchr(b'\n', chunk).map_or(0, |end| end + 1);
        let (complete, rest) = chunk.split_at(complete);
        let mut at = 0;
        let mut text = None;
        while at < complete.len() {
            if self.partial_line.is_empty() {
                let (start, text) = *text.get_or_insert_with(|| {
                    let (start, text) = utf8_part(&complete[at..]);
                    (at + start, text)
                });
                let text = at.checked_sub(start).and_then(|at| text.get(at..));
                let first = text.map_or(Ok(None), |text| lines.read_prefix(text))?;
                if let Some(len) = first {
                    at += len;
                    continue;
                }
            }
            let rest = &complete[at..];
            let Some(end) = memchr::memchr(b'\n', rest) else { break };
            at += end + 1;
            if self.partial_line.is_empty() {
                Self::emit(&rest[..end], lines)?;
            } else {
                self.partial_line.extend_from_slice(&rest[..end]);
                let emitted = Self::emit(&self.partial_line, lines);
                self.partial_line.clear();
                emitted?;
            }
        }
        if self.partial_line.len() + rest.len() > self.limit {
            return Err(DecodeError::TooLong { limit: self.limit }.into());
        }
        self.partial_line.extend_from_slice(rest);
        Ok(())
    }

    fn emit<R: LineHandler>(line: &[u8], lines: &mut R) -> Result<(), R::Error> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().all(u8::is_ascii_whitespace) { Ok(()) } else { lines.read_line(line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines with this prefix are read by `read_prefix`.
    const SHORT: &str = "tw";

    #[derive(Default)]
    struct Reader {
        lines: Vec<String>,
        first: usize,
    }

    impl LineHandler for Reader {
        type Error = DecodeError;

        fn read_prefix(&mut self, text: &str) -> Result<Option<usize>, DecodeError> {
            let line = text.split_inclusive('\n').next().unwrap_or_default();
            if !line.starts_with(SHORT) || !line.ends_with('\n') {
                return Ok(None);
            }
            self.first += 1;
            self.lines.push(line.trim_end().to_owned());
            Ok(Some(line.len()))
        }

        fn read_line(&mut self, line: &[u8]) -> Result<(), DecodeError> {
            self.lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        }
    }

    fn lines(chunks: &[&[u8]]) -> Result<Reader, DecodeError> {
        let mut splitter = LineSplitter::new(16);
        let mut reader = Reader::default();
        for chunk in chunks {
            splitter.feed(chunk, &mut reader)?;
        }
        Ok(reader)
    }

    #[test]
    fn lines_are_complete_wherever_chunks_are_split() {
        let text = "one\ntwö\r\n\n  \nthrée\ntwelve\npartial".as_bytes();
        for first in 0..text.len() {
            for second in first..text.len() {
                let chunks = [&text[..first], &text[first..second], &text[second..]];
                let read = lines(&chunks).expect("lines").lines;
                assert_eq!(read, ["one", "twö", "thrée", "twelve"], "cut at {first} and {second}");
            }
        }
        assert_eq!(lines(&[text]).expect("lines").first, 2);
    }

    #[test]
    fn invalid_utf8_does_not_hide_the_lines_after_it() {
        let read = lines(&[b"one\n\xfftwo\ntwo\n"]).expect("lines");
        assert_eq!(read.lines, ["one", "\u{fffd}two", "two"]);
    }

    #[test]
    fn an_unterminated_line_above_the_limit_is_rejected() {
        assert!(lines(&[b"0123456789", b"0123456789"]).is_err());
        assert!(lines(&[b"0123456789", b"012345", b"\n"]).is_ok());
    }
}
