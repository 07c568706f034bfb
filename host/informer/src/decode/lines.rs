use super::DecodeError;

/// Cuts a body into lines. A line inside one chunk is not copied; only what a chunk's end cuts is kept, up to a limit.
pub(crate) struct LineSplitter {
    /// The start of a line whose end has not come yet.
    carry: Vec<u8>,
    limit: usize,
}

impl LineSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { carry: Vec::new(), limit }
    }

    /// Calls `line` for each line that `chunk` completes, without its end; empty lines are skipped. Stops early when `line`
    /// returns `Err`.
    pub(crate) fn feed<E: From<DecodeError>>(
        &mut self,
        chunk: &[u8],
        mut line: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (head, tail) = rest.split_at(end);
            rest = &tail[1..];
            if self.carry.is_empty() {
                Self::emit(head, &mut line)?;
            } else {
                self.carry.extend_from_slice(head);
                let emitted = Self::emit(&self.carry, &mut line);
                self.carry.clear();
                emitted?;
            }
        }
        if self.carry.len() + rest.len() > self.limit {
            return Err(DecodeError::TooLong { limit: self.limit }.into());
        }
        self.carry.extend_from_slice(rest);
        Ok(())
    }

    fn emit<E>(line: &[u8], emit: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().all(u8::is_ascii_whitespace) { Ok(()) } else { emit(line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&str]) -> Result<Vec<String>, DecodeError> {
        let mut splitter = LineSplitter::new(16);
        let mut lines = Vec::new();
        for chunk in chunks {
            splitter.feed(chunk.as_bytes(), |line| {
                lines.push(String::from_utf8_lossy(line).into_owned());
                Ok::<_, DecodeError>(())
            })?;
        }
        Ok(lines)
    }

    #[test]
    fn lines_are_whole_wherever_the_chunks_are_cut() {
        let text = "one\ntwo\r\n\n  \nthree\npartial";
        for first in 0..text.len() {
            for second in first..text.len() {
                let chunks = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(
                    lines(&chunks).expect("lines"),
                    ["one", "two", "three"],
                    "cut at {first} and {second}"
                );
            }
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused_above_the_limit() {
        assert!(lines(&["0123456789", "0123456789"]).is_err());
        assert!(lines(&["0123456789", "012345", "\n"]).is_ok());
    }
}
