//! The last lines of each plugin's log, for `pilothouse logs`, and the [`PluginLog`] through which they are
//! written.

mod chunks;
mod ignorable;
mod line_limiter;
mod plugin_log;
mod repeats;
mod text;
mod throttle;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_plugin::{HostMemory, HostMemoryKind, LogLevel, LogSource};
use serde::{Deserialize, Serialize, Serializer};
use tokio::sync::Notify;

use crate::environment::WallClock;
use crate::name::PluginName;
use crate::timestamp::rfc_3339_microseconds;
pub use chunks::LogChunk;
use plugin_log::LogBudget;
pub(crate) use plugin_log::PluginLog;
pub(crate) use text::format_prefix;
pub use text::{printable, printable_quoted};
pub(crate) use throttle::LogThrottle;

/// One log line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginLogLine {
    /// The number of the line among those of all plugins since the host started, from 1.
    pub sequence: u64,
    /// When the host received the line, to the microsecond.
    #[serde(serialize_with = "serialize_time")]
    pub time: Timestamp,
    /// The plugin.
    pub plugin: String,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// Who wrote the line: [`HOST_SOURCE`], or the plugin by its `log`, `stdout` or `stderr`. Empty in lines of hosts that did not record it.
    #[serde(default)]
    pub source: String,
    /// The message.
    pub message: String,
    /// Key-value pairs: first those of the host, then those of the plugin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
}

/// The [source](PluginLogLine::source) of lines that the host wrote about a plugin.
pub const HOST_SOURCE: &str = "host";

fn source_name(source: LogSource) -> &'static str {
    match source {
        LogSource::Log => "log",
        LogSource::Stdout => "stdout",
        LogSource::Stderr => "stderr",
        LogSource::Host => HOST_SOURCE,
    }
}

fn serialize_time<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&rfc_3339_microseconds(*time))
}

/// Returns the time without its nanoseconds, which the serialized form does not have.
fn to_microsecond(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// The last log lines of all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub struct PluginLogs {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    more: Notify,
    clock: WallClock,
    /// The limits by plugin name. They outlive versions and files, so that a new version, or a file that
    /// comes back, has no new burst.
    budgets: Mutex<BTreeMap<Arc<str>, Arc<Mutex<LogBudget>>>>,
}

#[derive(Default)]
struct Lines {
    /// By plugin: a plugin that logs a lot evicts nobody else's lines.
    kept: BTreeMap<String, PluginLines>,
    last: u64,
}

#[derive(Default)]
struct PluginLines {
    lines: VecDeque<PluginLogLine>,
    bytes: usize,
    /// The account that the lines are charged to. Since they have a limit of their own, they are never
    /// refused.
    memory: Option<HostMemory>,
}

/// The number of lines that are kept per plugin.
const MAX_LINES: usize = 1024;
/// The bytes of lines that are kept per plugin. The newest line is always kept.
const MAX_BYTES: usize = 1 << 20;

impl PluginLines {
    fn push(&mut self, line: PluginLogLine) {
        self.uncharge();
        self.bytes += line.bytes();
        self.lines.push_back(line);
        while self.lines.len() > MAX_LINES || (self.bytes > MAX_BYTES && self.lines.len() > 1) {
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.bytes());
        }
        self.charge();
    }

    fn charge(&self) {
        if let Some(memory) = &self.memory {
            memory.add(HostMemoryKind::LogLines, self.bytes);
        }
    }

    fn uncharge(&self) {
        if let Some(memory) = &self.memory {
            memory.release(HostMemoryKind::LogLines, self.bytes);
        }
    }
}

impl Drop for PluginLines {
    fn drop(&mut self) {
        self.uncharge();
    }
}

impl PluginLogLine {
    /// Returns whether the host wrote the line, and not the plugin.
    #[must_use]
    pub fn is_of_host(&self) -> bool {
        self.source == HOST_SOURCE
    }

    /// Returns the source in brackets, as in ` (host)`, or nothing for what the plugin wrote with the import `log`. The name of a plugin has no
    /// brackets, so a plugin cannot write what looks like it before its messages.
    #[must_use]
    pub fn source_suffix(&self) -> String {
        match self.source.as_str() {
            "" | "log" => String::new(),
            source => format!(" ({})", printable(source)),
        }
    }

    /// Returns the time as text, which has the same width in every line.
    #[must_use]
    pub fn time_text(&self) -> String {
        rfc_3339_microseconds(self.time).to_string()
    }

    fn bytes(&self) -> usize {
        let fields =
            self.fields.iter().map(|(key, value)| size_of::<(String, String)>() + key.len() + value.len());
        size_of::<Self>() + self.message.len() + fields.sum::<usize>()
    }
}

impl PluginLogs {
    /// Creates empty logs whose lines have the times of this clock.
    pub(crate) fn new(clock: WallClock) -> Self {
        Self { shared: Arc::new(Shared { clock, ..Shared::default() }) }
    }

    /// Returns the log of one plugin, through which everything about it is written.
    pub(crate) fn for_plugin(&self, plugin: &PluginName) -> PluginLog {
        let budget = Arc::clone(self.shared.budgets.lock().entry(plugin.to_shared()).or_default());
        PluginLog::new(plugin.to_shared(), self.clone(), budget)
    }

    /// Returns the log of a plugin, unless the plugin was removed.
    pub(crate) fn of_known(&self, plugin: &Arc<str>) -> Option<PluginLog> {
        let budget = Arc::clone(self.shared.budgets.lock().get(plugin)?);
        Some(PluginLog::new(Arc::clone(plugin), self.clone(), budget))
    }

    /// Removes the lines and limits of a plugin that was removed.
    pub(crate) fn forget(&self, plugin: &PluginName) {
        self.shared.budgets.lock().remove(plugin.as_str());
        self.shared.lines.lock().kept.remove(plugin.as_str());
    }

    fn push(
        &self,
        plugin: &str,
        source: LogSource,
        level: LogLevel,
        message: &str,
        fields: Vec<(String, String)>,
    ) {
        let level = match level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        };
        let mut lines = self.shared.lines.lock();
        lines.last += 1;
        let line = PluginLogLine {
            sequence: lines.last,
            time: to_microsecond(self.shared.clock.now()),
            plugin: plugin.to_owned(),
            level: level.to_owned(),
            source: source_name(source).to_owned(),
            message: message.to_owned(),
            fields,
        };
        match lines.kept.get_mut(plugin) {
            Some(kept) => kept.push(line),
            None => lines.kept.entry(plugin.to_owned()).or_default().push(line),
        }
        drop(lines);
        self.shared.more.notify_waiters();
    }

    /// Charges a plugin's lines, including those that are already kept, to this account from now on.
    pub(crate) fn charge_to(&self, plugin: &PluginName, memory: &HostMemory) {
        let mut lines = self.shared.lines.lock();
        let kept = lines.kept.entry(plugin.as_str().to_owned()).or_default();
        kept.uncharge();
        kept.memory = Some(memory.clone());
        kept.charge();
    }

    /// Returns all kept lines after a sequence number, of one plugin or of all. Those of all plugins may take a gibibyte:
    /// use [`Self::chunk`] to send them to a client.
    #[must_use]
    pub fn after(&self, sequence: u64, plugin: Option<&PluginName>) -> Vec<PluginLogLine> {
        let newer = |kept: &PluginLines| kept.after(sequence).cloned().collect::<Vec<_>>();
        let lines = self.shared.lines.lock();
        match plugin {
            Some(plugin) => lines.kept.get(plugin.as_str()).map(newer).unwrap_or_default(),
            None => {
                let mut all: Vec<_> = lines.kept.values().flat_map(newer).collect();
                all.sort_unstable_by_key(|line| line.sequence);
                all
            }
        }
    }

    /// Waits until there is a line after a sequence number. Cancellation safe.
    pub async fn wait_after(&self, sequence: u64) {
        loop {
            let more = self.shared.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            if self.shared.lines.lock().last > sequence {
                return;
            }
            more.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn old_lines_are_evicted_per_plugin() {
        let logs = PluginLogs::default();
        logs.push("quiet", LogSource::Host, LogLevel::Info, "once", Vec::new());
        for number in 0..MAX_LINES + 5 {
            logs.push("loud", LogSource::Host, LogLevel::Info, &number.to_string(), Vec::new());
        }
        let all = logs.after(0, None);
        assert_eq!(
            (all.len(), all[0].message.as_str(), all[1].message.as_str()),
            (MAX_LINES + 1, "once", "5")
        );
        let loud = PluginName::of_file(Path::new("loud.wasm")).expect("a name");
        assert!(logs.after(0, Some(&loud)).iter().all(|line| line.plugin == "loud"));
        assert_eq!(logs.after(all[MAX_LINES].sequence, None), []);
        let two = logs.after(all[MAX_LINES].sequence - 2, None);
        assert_eq!(two, all[MAX_LINES - 1..]);
    }

    #[test]
    fn every_time_has_the_same_width_and_survives_serialization() {
        let logs = PluginLogs::default();
        logs.push("p", LogSource::Host, LogLevel::Info, "a line", Vec::new());
        let mut line = logs.after(0, None).remove(0);
        for (time, text) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02T03:04:05.6Z", "2026-01-02T03:04:05.600000Z"),
            ("2026-01-02T03:04:05.678901234Z", "2026-01-02T03:04:05.678901Z"),
        ] {
            line.time = to_microsecond(time.parse().expect("a time"));
            assert_eq!(line.time_text(), text);
            let json = serde_json::to_value(&line).expect("JSON");
            assert_eq!(json["time"], text);
            assert_eq!(serde_json::from_value::<PluginLogLine>(json).expect("a line"), line);
        }
    }

    #[test]
    fn long_lines_are_evicted_sooner() {
        let logs = PluginLogs::default();
        let long = "x".repeat(MAX_BYTES / 4);
        for number in 0..8 {
            logs.push(
                "p",
                LogSource::Log,
                LogLevel::Info,
                &long,
                vec![("number".into(), number.to_string())],
            );
        }
        let kept = logs.after(0, None);
        assert_eq!(kept.len(), 3);
        assert_eq!(kept[2].fields[0].1, "7");
        logs.push("p", LogSource::Host, LogLevel::Info, &"x".repeat(2 * MAX_BYTES), Vec::new());
        assert_eq!(logs.after(0, None).len(), 1);
    }

    #[test]
    fn lines_are_charged_while_they_are_kept() {
        let (logs, memory) = (PluginLogs::default(), HostMemory::default());
        let plugin = PluginName::of_file(Path::new("p.wasm")).expect("a name");
        logs.push("p", LogSource::Host, LogLevel::Info, "before", Vec::new());
        logs.charge_to(&plugin, &memory);
        let one = memory.used_by(HostMemoryKind::LogLines);
        assert!(one > "before".len());
        for _ in 0..2 * MAX_LINES {
            logs.push("p", LogSource::Host, LogLevel::Info, &"x".repeat(4096), Vec::new());
            assert!(memory.used() <= MAX_BYTES + 4096);
        }
        let next = HostMemory::default();
        logs.charge_to(&plugin, &next);
        assert_eq!(memory.used(), 0, "a plugin of the same name has another account");
        assert!(next.used() > one);
        logs.forget(&plugin);
        assert_eq!((next.used(), logs.after(0, None).len()), (0, 0));
    }

    #[tokio::test]
    async fn a_follower_is_woken_by_the_next_line() {
        let logs = PluginLogs::default();
        let mut wait = tokio_test::task::spawn(logs.wait_after(0));
        assert!(wait.poll().is_pending());
        logs.push("p", LogSource::Host, LogLevel::Warn, "hello", Vec::new());
        assert!(wait.is_woken());
        assert!(wait.poll().is_ready());
    }
}
