use super::EventDecoder;
use crate::store::PrefetchPipeline;

/// How many events are on their way to the one that is read: the steps of [`Coming`], and itself.
const LOOKAHEAD: usize = 4;
/// By how much a line may be shorter than the one before it, to be found at once.
const MAX_SHRINK: usize = 64;

/// Has the store's objects of the next events of a chunk loaded while the events before them are read. It guesses where those begin from how long
/// the last one was: a wrong guess loads something else, or nothing.
#[derive(Default)]
pub(crate) struct Prefetcher {
    /// How many events from the next one on have been looked at.
    lead: usize,
    /// Where the first begins that has not, in bytes from the end of the chunk.
    left: usize,
    /// How long the last line was.
    len: usize,
    pipeline: PrefetchPipeline,
}

impl Prefetcher {
    /// The event that `text` starts with is about to be read.
    pub(crate) fn prefetch(&mut self, text: &str, decoder: &EventDecoder<'_>) {
        // There, nothing can be loaded ahead.
        if !cfg!(target_arch = "x86_64") {
            return;
        }
        if self.lead == 0 {
            let end = memchr::memchr(b'\n', text.as_bytes());
            if end.is_none_or(|end| end + 1 == text.len()) {
                // It is the only one, as where a server sends each in a chunk of its own.
                return;
            }
            self.left = text.len();
        }
        for _ in self.lead..LOOKAHEAD {
            let next = self.next_line(text);
            let key = next.and_then(|line| decoder.first_key(line));
            decoder.store.prefetch(&mut self.pipeline, key);
        }
        self.lead = LOOKAHEAD - 1;
    }

    /// It was so long, with the end of its line.
    pub(crate) fn record_length(&mut self, len: usize) {
        self.len = len;
    }

    fn next_line<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let line = text.get(text.len().saturating_sub(self.left)..).filter(|line| !line.is_empty())?;
        let from = self.len.saturating_sub(MAX_SHRINK).min(line.len());
        let end = memchr::memchr(b'\n', &line.as_bytes()[from..]);
        self.left = end.map_or(0, |end| line.len() - (from + end + 1));
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
        let mut prefetcher = Prefetcher { left: text.len(), len: 301, ..Prefetcher::default() };
        let found: Vec<_> = std::iter::from_fn(|| prefetcher.next_line(&text)).map(|line| &line[..1]).collect();
        assert_eq!(found, ["a", "b", "c", "d", "e"]);
        // Much shorter ones are passed over.
        let text = [line("a", 300), line("b", 10), line("c", 300)].concat();
        let mut prefetcher = Prefetcher { left: text.len(), len: 301, ..Prefetcher::default() };
        let found: Vec<_> = std::iter::from_fn(|| prefetcher.next_line(&text)).map(|line| &line[..1]).collect();
        assert_eq!(found, ["a", "b"]);
    }
}
