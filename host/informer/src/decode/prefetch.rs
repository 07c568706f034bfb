//! Prefetches the stored objects of a chunk's next events into the CPU cache.

use super::EventDecoder;
use crate::store::PrefetchPipeline;

/// How many events are in flight: one for each step of [`PrefetchPipeline`], and the one being decoded.
const LOOKAHEAD: usize = 4;

/// Prefetches the stored objects of the next events while the events before them are decoded. It finds the starts of their lines by the
/// line endings: lines of real events differ in length, so a guess from the previous one is mostly wrong.
#[derive(Default)]
pub(crate) struct Prefetcher {
    /// How many events, from the next one on, have entered the pipeline.
    lead: usize,
    /// Where the first event that has not entered it starts, in bytes from the end of the chunk.
    remaining: usize,
    /// Where the lines of the events in the pipeline start and end, the next one first, in bytes from the end of the chunk.
    lines: [(usize, usize); LOOKAHEAD],
    pipeline: PrefetchPipeline,
}

impl Prefetcher {
    /// Advances the pipeline. Must be called before the event that `text` starts with is decoded. Returns the length of the line that `text`
    /// starts with, line ending included, if it has been found.
    pub(crate) fn prefetch(&mut self, text: &str, decoder: &EventDecoder<'_>) -> Option<usize> {
        // The model's prefetch does nothing on other architectures.
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        if self.lead == 0 {
            let end = memchr::memchr(b'\n', text.as_bytes())? + 1;
            if end == text.len() {
                // It is the only event in the chunk, as with a server that sends one event per chunk.
                return Some(end);
            }
            self.remaining = text.len();
        }
        for position in self.lead..LOOKAHEAD {
            let start = self.remaining;
            let next = self.next_line(text);
            self.lines[position] = (start, self.remaining);
            let key = next.and_then(|line| decoder.first_key(line));
            decoder.store.prefetch(&mut self.pipeline, key);
        }
        self.lead = LOOKAHEAD - 1;
        let (start, end) = self.lines[0];
        self.lines.rotate_left(1);
        (start == text.len() && end < start).then(|| start - end)
    }

    fn next_line<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let line = text.get(text.len().saturating_sub(self.remaining)..).filter(|line| !line.is_empty())?;
        let end = memchr::memchr(b'\n', line.as_bytes());
        self.remaining = end.map_or(0, |end| line.len() - (end + 1));
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_model::ObjectReader;

    use super::*;
    use crate::decode::test_support::pod_format;
    use crate::store::Store;

    #[test]
    fn upcoming_lines_are_located_whatever_their_length() {
        let line = |name: &str, len: usize| format!("{name:x<len$}\n");
        let text = [line("a", 300), line("b", 10), line("c", 250), line("d", 900), line("e", 300)].concat();
        let mut prefetcher = Prefetcher { remaining: text.len(), ..Prefetcher::default() };
        let found: Vec<_> =
            std::iter::from_fn(|| prefetcher.next_line(&text)).map(|line| &line[..1]).collect();
        assert_eq!(found, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn the_length_of_each_line_is_that_of_its_text() {
        let (format, mut reader, store) = (pod_format(), ObjectReader::default(), Store::new());
        let decoder = EventDecoder { format: &format, reader: &mut reader, store: &store };
        let lines = [300, 10, 1, 250, 900, 7, 0, 3].map(|len| "x".repeat(len) + "\n");
        for first in 0..lines.len() {
            let (mut prefetcher, text) = (Prefetcher::default(), lines[first..].concat());
            let mut rest = text.as_str();
            for line in &lines[first..] {
                let expected = cfg!(target_arch = "x86_64").then_some(line.len());
                assert_eq!(prefetcher.prefetch(rest, &decoder), expected);
                rest = &rest[line.len()..];
            }
            // A position that is not the start of the next line.
            if first + 1 < lines.len() {
                let mut prefetcher = Prefetcher::default();
                let _ = prefetcher.prefetch(&text, &decoder);
                let elsewhere = &text[lines[first].len() + 1..];
                assert_eq!(prefetcher.prefetch(elsewhere, &decoder), None);
            }
        }
    }
}
