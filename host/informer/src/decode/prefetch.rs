//! Prefetches the stored objects of a chunk's next events into the CPU cache.

use super::EventDecoder;
use crate::store::PrefetchPipeline;

/// How many events are in flight: one for each step of [`PrefetchPipeline`], and the one being decoded.
const LOOKAHEAD: usize = 4;
/// How many bytes a line may be shorter than the previous one and still be found by the guess.
const MAX_SHRINK: usize = 64;

/// Prefetches the stored objects of the next events while the events before them are decoded. It guesses where the next lines
/// start from the length of the previous one. A wrong guess prefetches the wrong object or none, and is otherwise harmless.
#[derive(Default)]
pub(crate) struct Prefetcher {
    /// How many events, from the next one on, have entered the pipeline.
    lead: usize,
    /// Where the first event that has not entered it starts, in bytes from the end of the chunk.
    remaining: usize,
    /// The length of the last line.
    line_len: usize,
    pipeline: PrefetchPipeline,
}

impl Prefetcher {
    /// Advances the pipeline. Must be called before the event that `text` starts with is decoded.
    pub(crate) fn prefetch(&mut self, text: &str, decoder: &EventDecoder<'_>) {
        // The model's prefetch does nothing on other architectures.
        if !cfg!(target_arch = "x86_64") {
            return;
        }
        if self.lead == 0 {
            let end = memchr::memchr(b'\n', text.as_bytes());
            if end.is_none_or(|end| end + 1 == text.len()) {
                // It is the only event in the chunk, as with a server that sends one event per chunk.
                return;
            }
            self.remaining = text.len();
        }
        for _ in self.lead..LOOKAHEAD {
            let next = self.next_line(text);
            let key = next.and_then(|line| decoder.first_key(line));
            decoder.store.prefetch(&mut self.pipeline, key);
        }
        self.lead = LOOKAHEAD - 1;
    }

    /// Records the length of the decoded line, line ending included.
    pub(crate) fn record_length(&mut self, len: usize) {
        self.line_len = len;
    }

    fn next_line<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let line = text.get(text.len().saturating_sub(self.remaining)..).filter(|line| !line.is_empty())?;
        let from = self.line_len.saturating_sub(MAX_SHRINK).min(line.len());
        let end = memchr::memchr(b'\n', &line.as_bytes()[from..]);
        self.remaining = end.map_or(0, |end| line.len() - (from + end + 1));
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upcoming_lines_are_located_by_the_length_of_the_previous_line() {
        let line = |name: &str, len: usize| format!("{name:x<len$}\n");
        let text = [line("a", 300), line("b", 310), line("c", 250), line("d", 900), line("e", 300)].concat();
        let mut prefetcher = Prefetcher { remaining: text.len(), line_len: 301, ..Prefetcher::default() };
        let found: Vec<_> =
            std::iter::from_fn(|| prefetcher.next_line(&text)).map(|line| &line[..1]).collect();
        assert_eq!(found, ["a", "b", "c", "d", "e"]);
        // Much shorter lines are skipped.
        let text = [line("a", 300), line("b", 10), line("c", 300)].concat();
        let mut prefetcher = Prefetcher { remaining: text.len(), line_len: 301, ..Prefetcher::default() };
        let found: Vec<_> =
            std::iter::from_fn(|| prefetcher.next_line(&text)).map(|line| &line[..1]).collect();
        assert_eq!(found, ["a", "b"]);
    }
}
