//! Reads the kept lines in chunks of bounded size, so that no reader holds all of them or blocks their writers for long.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::{PluginLines, PluginLogLine, PluginLogs};
use crate::name::PluginName;

/// The maximum size of a chunk's lines in bytes, unless a single line is larger.
pub(super) const MAX_CHUNK_SIZE: usize = 64 << 10;

/// Some of the kept lines, in the order in which they were written.
#[derive(Debug, Default)]
pub struct LogChunk {
    /// The lines.
    pub lines: Vec<PluginLogLine>,
    /// The sequence number after which the next chunk begins. Lines up to it that are not in this chunk belong to other
    /// plugins, or were evicted.
    pub next: u64,
    /// Whether there may be further lines.
    pub has_more: bool,
}

impl PluginLogs {
    /// Returns the sequence number of the newest line of all plugins; 0 without a line.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.shared.lines.lock().last
    }

    /// Returns the first kept lines after a sequence number, of one plugin or of all: at most 64 KiB, or a single larger line.
    #[must_use]
    pub fn chunk(&self, after: u64, plugin: Option<&PluginName>) -> LogChunk {
        let lines = self.shared.lines.lock();
        let (chosen, has_more) = match plugin {
            Some(plugin) => {
                let newer = lines.kept.get(plugin.as_str()).map(|kept| kept.after(after));
                take(newer.into_iter().flatten())
            }
            None => take(merged(&lines.kept, after)),
        };
        let next = if has_more { chosen.last().map_or(after, |line| line.sequence) } else { lines.last };
        LogChunk { lines: chosen, next: next.max(after), has_more }
    }

    /// Returns the last kept lines of a plugin, at most `count`.
    #[must_use]
    pub fn last(&self, plugin: &PluginName, count: usize) -> Vec<PluginLogLine> {
        let lines = self.shared.lines.lock();
        let Some(kept) = lines.kept.get(plugin.as_str()) else { return Vec::new() };
        kept.lines.range(kept.lines.len().saturating_sub(count)..).cloned().collect()
    }
}

impl PluginLines {
    /// Returns the kept lines after a sequence number.
    pub(super) fn after(&self, sequence: u64) -> impl Iterator<Item = &PluginLogLine> {
        self.lines.range(first_after(&self.lines, sequence)..)
    }
}

/// Returns the position of the first line after a sequence number.
fn first_after(lines: &VecDeque<PluginLogLine>, sequence: u64) -> usize {
    lines.partition_point(|line| line.sequence <= sequence)
}

/// Returns the lines of all plugins after a sequence number, ordered by their sequence numbers.
fn merged(kept: &BTreeMap<String, PluginLines>, after: u64) -> impl Iterator<Item = &PluginLogLine> {
    let mut plugins: Vec<_> = kept.values().map(|kept| kept.after(after).peekable()).collect();
    let mut heads: BinaryHeap<_> = plugins
        .iter_mut()
        .enumerate()
        .filter_map(|(position, lines)| Some(Reverse((lines.peek()?.sequence, position))))
        .collect();
    std::iter::from_fn(move || {
        let Reverse((_, position)) = heads.pop()?;
        let line = plugins[position].next()?;
        if let Some(next) = plugins[position].peek() {
            heads.push(Reverse((next.sequence, position)));
        }
        Some(line)
    })
}

/// Returns copies of the first lines up to [`MAX_CHUNK_SIZE`], and whether there are more. Reads at most one line beyond them.
fn take<'a>(lines: impl Iterator<Item = &'a PluginLogLine>) -> (Vec<PluginLogLine>, bool) {
    let (mut chosen, mut bytes) = (Vec::new(), 0);
    for line in lines {
        bytes += line.bytes();
        if bytes > MAX_CHUNK_SIZE && !chosen.is_empty() {
            return (chosen, true);
        }
        chosen.push(line.clone());
    }
    (chosen, false)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pilothouse_plugin::{LogLevel, LogSource};

    use super::*;

    fn name(name: &str) -> PluginName {
        PluginName::of_file(Path::new(&format!("{name}.wasm"))).expect("a name")
    }

    fn push(logs: &PluginLogs, plugin: &str, text: &str) {
        logs.push(plugin, LogSource::Log, LogLevel::Info, text, Vec::new());
    }

    /// Returns all lines, read in chunks, and the size of the largest chunk.
    fn read_all(logs: &PluginLogs, plugin: Option<&PluginName>) -> (Vec<PluginLogLine>, usize) {
        let (mut lines, mut largest, mut after) = (Vec::new(), 0, 0);
        loop {
            let chunk = logs.chunk(after, plugin);
            largest = largest.max(chunk.lines.iter().map(PluginLogLine::bytes).sum());
            lines.extend(chunk.lines);
            after = chunk.next;
            if !chunk.has_more {
                return (lines, largest);
            }
        }
    }

    #[test]
    fn chunks_are_bounded_and_together_have_all_lines_in_order() {
        let logs = PluginLogs::default();
        for number in 0..600 {
            push(&logs, ["a", "b", "c"][number % 3], &format!("{number} {}", "x".repeat(4000)));
        }
        let (lines, largest) = read_all(&logs, None);
        assert!(largest <= MAX_CHUNK_SIZE, "{largest}");
        assert_eq!(lines, logs.after(0, None));
        let (lines, largest) = read_all(&logs, Some(&name("b")));
        assert!(largest <= MAX_CHUNK_SIZE, "{largest}");
        assert_eq!(lines, logs.after(0, Some(&name("b"))));
    }

    #[test]
    fn a_line_larger_than_a_chunk_is_a_chunk_of_its_own() {
        let logs = PluginLogs::default();
        push(&logs, "a", "first");
        push(&logs, "a", &"x".repeat(2 * MAX_CHUNK_SIZE));
        push(&logs, "a", "last");
        let (lines, _) = read_all(&logs, None);
        assert_eq!(lines.len(), 3);
        assert_eq!(logs.chunk(1, None).lines.len(), 1);
    }

    #[test]
    fn a_chunk_of_one_plugin_skips_the_lines_of_others() {
        let logs = PluginLogs::default();
        push(&logs, "a", "of a");
        for _ in 0..10 {
            push(&logs, "b", "of b");
        }
        let chunk = logs.chunk(0, Some(&name("a")));
        assert_eq!((chunk.lines.len(), chunk.next, chunk.has_more), (1, logs.newest(), false));
        assert_eq!(logs.chunk(0, Some(&name("none"))).next, logs.newest());
    }

    #[test]
    fn the_last_lines_of_a_plugin_are_read_alone() {
        let logs = PluginLogs::default();
        for number in 0..5 {
            push(&logs, "a", &number.to_string());
        }
        let messages = |count| {
            let lines = logs.last(&name("a"), count);
            lines.into_iter().map(|line| line.message).collect::<Vec<_>>()
        };
        assert_eq!(messages(2), ["3", "4"]);
        assert_eq!(messages(9).len(), 5);
        assert_eq!(logs.last(&name("none"), 2), []);
    }
}
