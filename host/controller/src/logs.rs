//! The last lines of each plugin's log, for `pilothouse logs`.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_plugin::LogLevel;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::name::PluginName;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginLogLine {
    /// Counts all plugins' lines since the host started, from 1.
    pub sequence: u64,
    /// When the host took it.
    pub time: Timestamp,
    /// The plugin.
    pub plugin: String,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// The text.
    pub message: String,
    /// Keys and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
}

/// The last lines of all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub struct PluginLogs {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    more: Notify,
}

#[derive(Default)]
struct Lines {
    kept: VecDeque<PluginLogLine>,
    last: u64,
}

const KEPT: usize = 2048;

impl PluginLogs {
    pub(crate) fn push(&self, plugin: &str, level: LogLevel, message: &str, fields: &[(String, String)]) {
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
            time: Timestamp::now(),
            plugin: plugin.to_owned(),
            level: level.to_owned(),
            message: message.to_owned(),
            fields: fields.to_vec(),
        };
        if lines.kept.len() == KEPT {
            lines.kept.pop_front();
        }
        lines.kept.push_back(line);
        drop(lines);
        self.shared.more.notify_waiters();
    }

    /// The kept lines after a sequence number, of one plugin or of all.
    #[must_use]
    pub fn after(&self, sequence: u64, plugin: Option<&PluginName>) -> Vec<PluginLogLine> {
        let lines = self.shared.lines.lock();
        lines
            .kept
            .iter()
            .filter(|line| line.sequence > sequence)
            .filter(|line| plugin.is_none_or(|plugin| line.plugin == plugin.as_str()))
            .cloned()
            .collect()
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
    fn old_lines_make_room_and_plugins_are_told_apart() {
        let logs = PluginLogs::default();
        for number in 0..KEPT + 5 {
            logs.push(if number % 2 == 0 { "even" } else { "odd" }, LogLevel::Info, &number.to_string(), &[]);
        }
        let all = logs.after(0, None);
        assert_eq!((all.len(), all[0].message.as_str()), (KEPT, "5"));
        let odd = PluginName::of_file(Path::new("odd.wasm")).expect("a name");
        assert!(logs.after(0, Some(&odd)).iter().all(|line| line.plugin == "odd"));
        assert_eq!(logs.after(all[KEPT - 1].sequence, None), []);
    }

    #[tokio::test]
    async fn a_follower_is_woken_by_the_next_line() {
        let logs = PluginLogs::default();
        let mut wait = tokio_test::task::spawn(logs.wait_after(0));
        assert!(wait.poll().is_pending());
        logs.push("p", LogLevel::Warn, "hello", &[]);
        assert!(wait.is_woken());
        assert!(wait.poll().is_ready());
    }
}
