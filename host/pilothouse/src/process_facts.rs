//! What this process uses, for bug reports: its memory, and its threads with their CPU time. Read from Linux's `/proc`; empty on other systems.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// The maximum number of threads that are listed.
const MAX_THREADS: usize = 1_000;
/// Milliseconds of a clock tick in `/proc/PID/stat`. Linux converts its own ticks to this unit.
const TICK_MILLISECONDS: u64 = 10;
/// The lines of `/proc/self/status` that are about memory, each with its name here. Their unit is kB.
const MEMORY: [(&str, &str); 6] = [
    ("VmRSS", "residentKilobytes"),
    ("VmHWM", "peakResidentKilobytes"),
    ("RssAnon", "anonymousKilobytes"),
    ("RssFile", "fileKilobytes"),
    ("VmSwap", "swappedKilobytes"),
    ("VmPTE", "pageTableKilobytes"),
];

/// Returns the memory of this process in kilobytes, by kind.
pub(crate) fn memory() -> Value {
    parse_memory(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Returns the threads of this process, in the order of their IDs.
pub(crate) fn threads() -> Value {
    threads_in(Path::new("/proc/self/task"))
}

fn threads_in(folder: &Path) -> Value {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_THREADS);
    let mut found: Vec<_> = entries
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|stat| parse_thread(&stat))
        .collect();
    found.sort_by_key(|thread| thread["id"].as_u64());
    found.into()
}

fn parse_memory(status: &str) -> Value {
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let found = MEMORY.iter().filter_map(|(name, shown)| Some(((*shown).to_owned(), value(name)?.into())));
    Value::Object(found.collect::<Map<_, _>>())
}

/// Parses `stat` of a thread. Its name is in parentheses and may contain any character.
fn parse_thread(stat: &str) -> Option<Value> {
    let (id, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The third field of the file is the first one here; the CPU times are its fields 14 and 15.
    let milliseconds = |index: usize| {
        fields.get(index)?.parse::<u64>().ok().map(|ticks| ticks.saturating_mul(TICK_MILLISECONDS))
    };
    Some(json!({
        "id": id.trim().parse::<u64>().ok()?,
        "name": name,
        "state": fields.first()?,
        "userMilliseconds": milliseconds(11)?,
        "systemMilliseconds": milliseconds(12)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_name_state_and_cpu_times() {
        let stat =
            "4711 (tokio) worker (2)) S 1 4711 4711 0 -1 1077936192 100 0 0 0 12 345 0 0 20 0 9 0 1 0 0";
        assert_eq!(
            parse_thread(stat),
            Some(json!({
                "id": 4711, "name": "tokio) worker (2)", "state": "S", "userMilliseconds": 120, "systemMilliseconds": 3450,
            }))
        );
        for broken in ["", "1 (a", "1 (a) S 1 2", "x (a) S 1 1 1 0 -1 1 1 0 0 0 1 1", "1 (a) "] {
            assert_eq!(parse_thread(broken), None, "{broken}");
        }
    }

    #[test]
    fn memory_is_listed_by_kind_and_unknown_lines_are_left_out() {
        let status = "Name:\tpilothouse\nVmRSS:\t  1024 kB\nVmHWM:\t 2048 kB\nVmRSSx: 1 kB\nRssAnon: lots\n";
        assert_eq!(parse_memory(status), json!({"residentKilobytes": 1024, "peakResidentKilobytes": 2048}));
        assert_eq!(parse_memory(""), json!({}));
    }

    #[test]
    fn a_system_without_proc_has_no_threads() {
        assert_eq!(threads_in(Path::new("/nonexistent")), json!([]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_threads_and_memory() {
        let threads = threads();
        assert!(threads.as_array().is_some_and(|threads| !threads.is_empty()), "{threads}");
        assert!(memory()["residentKilobytes"].as_u64().is_some_and(|memory| memory > 0));
    }
}
