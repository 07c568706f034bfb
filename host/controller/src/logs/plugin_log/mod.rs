//! Writes everything to the log of one plugin, whether from its guests or from the host about it.
//!
//! One rate limit covers all of it: a plugin that cannot flood the log with `log` calls must not be able to
//! do so by failing. Changes of the plugin's state have a small limit of their own, so that no flood hides
//! that a plugin was stopped.

use std::fmt::{Arguments, Display};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_plugin::{Limits, LogLevel};
use tokio::time::Instant;
use tracing::field::display;

use super::PluginLogs;
use super::gate::{Bound, Gate, Loss, Rate};
use super::repeats::{Repeats, Summary};
use super::text::{beginning, fitting, printable, size_in_json};
use crate::config::limits::written;

/// The rate for changes of a plugin's state: more than a plugin that keeps backing off and recovering needs.
const STATES: Rate = Rate { lines: 2, bytes: 8 << 10 };
/// Limit in bytes for a state change's text.
const STATE_SIZE: usize = 4 << 10;
/// The bytes of a line besides its text: time, level, names.
const FRAME: usize = 128;
/// Extra bytes for the host's remarks on a line filled by a guest: that the line was cut, and what follows
/// from a failure.
const REMARK: usize = 256;
/// Limit in bytes for a failure's text in a summary.
const SUMMARY_SIZE: usize = 256;

/// The log of one plugin. Cheap to clone. All logs of the same name share one limit.
#[derive(Clone)]
pub(crate) struct PluginLog {
    plugin: Arc<str>,
    logs: PluginLogs,
    control: Arc<Mutex<Control>>,
}

/// The state of one plugin's rate limits.
pub(super) struct Control {
    output: Gate,
    states: Gate,
    repeats: Repeats,
    line_size: usize,
}

impl Default for Control {
    fn default() -> Self {
        let (limits, now) = (Limits::default(), Instant::now());
        Self {
            output: Gate::new(rate(&limits), now),
            states: Gate::new(STATES, now),
            repeats: Repeats::default(),
            line_size: limits.log_line_size,
        }
    }
}

fn rate(limits: &Limits) -> Rate {
    let bytes = u32::try_from(limits.log_bytes_per_second).unwrap_or(u32::MAX);
    Rate { lines: limits.log_lines_per_second, bytes }
}

/// Where something happened, as key-value pairs.
type Fields<'a> = &'a [(&'a str, &'a dyn Display)];

/// The author of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    /// The guest, which chose all fields.
    Guest,
    /// The host, about the plugin. The fields are known and written as `tracing` fields.
    Host,
}

impl PluginLog {
    pub(super) fn new(plugin: Arc<str>, logs: PluginLogs, control: Arc<Mutex<Control>>) -> Self {
        Self { plugin, logs, control }
    }

    /// The kept lines of all plugins.
    #[cfg(test)]
    pub(crate) fn all(&self) -> &PluginLogs {
        &self.logs
    }

    /// Applies the limits of a version.
    pub(crate) fn limit(&self, limits: &Limits) {
        let mut control = self.control.lock();
        control.output.set_rate(rate(limits));
        control.line_size = limits.log_line_size;
    }

    /// Writes a line of the guest.
    pub(crate) fn guest(&self, level: LogLevel, message: &str, fields: Vec<(String, String)>) {
        let (admitted, loss) = {
            let (mut control, now) = (self.control.lock(), Instant::now());
            let admitted = control.output.admits(now).then_some(control.line_size);
            (admitted, control.output.due_loss(now))
        };
        self.report(loss);
        if let Some(size) = admitted {
            self.write(Speaker::Guest, level, message, fields, size);
        }
    }

    /// Writes a line of the host about the plugin.
    pub(crate) fn host(&self, level: LogLevel, message: Arguments<'_>, fields: Fields<'_>) {
        let (admitted, loss) = {
            let (mut control, now) = (self.control.lock(), Instant::now());
            let admitted = control.output.admits(now).then_some(control.line_size);
            (admitted, control.output.due_loss(now))
        };
        self.report(loss);
        if let Some(size) = admitted {
            self.write_host(level, message, fields, size);
        }
    }

    /// Writes that the plugin failed, and what follows from that. Equal failures are summarised.
    pub(crate) fn failure(
        &self,
        level: LogLevel,
        failure: Arguments<'_>,
        then: &dyn Display,
        fields: Fields<'_>,
    ) {
        let size = self.control.lock().line_size;
        let failure = beginning(failure, size);
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&failure);
        let (is_written, summaries) = {
            let (mut control, now) = (self.control.lock(), Instant::now());
            let mut summaries = control.repeats.summaries(now);
            let text = || failure[..failure.floor_char_boundary(SUMMARY_SIZE)].to_owned();
            let is_written = control.repeats.is_written(hash, text, now);
            summaries.extend(control.repeats.summaries(now));
            (is_written, summaries)
        };
        self.summarise(summaries);
        if is_written {
            self.host(level, format_args!("{failure}; {then}"), fields);
        }
    }

    /// Writes a change of the plugin's state. A flood of other lines does not suppress it.
    pub(crate) fn state(&self, level: LogLevel, message: Arguments<'_>) {
        let (is_admitted, loss) = {
            let (mut control, now) = (self.control.lock(), Instant::now());
            (control.states.admits(now), control.states.due_loss(now))
        };
        if let Some(Loss { lines, .. }) = loss {
            self.emit(
                Speaker::Host,
                LogLevel::Warn,
                &format!("{lines} changes of its state were not written: there are too many"),
                &[],
            );
        }
        if is_admitted {
            let text = beginning(message, STATE_SIZE);
            let text = printable(&text[..fitting(&text, STATE_SIZE)]).to_string();
            self.control.lock().states.charge(FRAME + size_in_json(&text));
            self.emit(Speaker::Host, level, &text, &[]);
        }
    }

    /// Writes the pending reports of dropped lines and repeated failures. Called periodically, because no
    /// line may follow a flood.
    pub(crate) fn settle(&self) {
        let (loss, summaries) = {
            let (mut control, now) = (self.control.lock(), Instant::now());
            (control.output.due_loss(now), control.repeats.summaries(now))
        };
        self.report(loss);
        self.summarise(summaries);
    }

    fn summarise(&self, summaries: Vec<Summary>) {
        for Summary { text, count } in summaries {
            self.host(LogLevel::Warn, format_args!("{count} more times in the last seconds: {text}"), &[]);
        }
    }

    fn report(&self, loss: Option<Loss>) {
        let Some(Loss { lines, bound, rate }) = loss else { return };
        let limit = match bound {
            Bound::Lines => format!("logLinesPerSecond is {}", rate.lines),
            Bound::Bytes => format!("logBytesPerSecond is {}", written(rate.bytes.into())),
        };
        self.write_host(
            LogLevel::Warn,
            format_args!("{lines} log lines dropped: limits.{limit}"),
            &[],
            REMARK,
        );
    }

    fn write_host(&self, level: LogLevel, message: Arguments<'_>, fields: Fields<'_>, size: usize) {
        let message = beginning(message, size + REMARK + 1);
        let fields =
            fields.iter().map(|(key, value)| ((*key).to_owned(), beginning(format_args!("{value}"), size)));
        self.write(Speaker::Host, level, &message, fields.collect(), size);
    }

    /// Writes a line that was admitted. Its size is known only here.
    fn write(
        &self,
        speaker: Speaker,
        level: LogLevel,
        message: &str,
        mut fields: Vec<(String, String)>,
        size: usize,
    ) {
        let end = match fitting(message, size + REMARK) {
            whole if whole == message.len() => whole,
            _ => fitting(message, size),
        };
        let cut = (end < message.len()).then(|| {
            format!("{} … (cut at limits.logLineSize of {})", &message[..end], written(size as u64))
        });
        let message = cut.as_deref().unwrap_or(message);
        let mut room = size;
        for text in fields.iter_mut().flat_map(|(key, value)| [key, value]) {
            text.truncate(fitting(text, room));
            room -= size_in_json(&printable(text).to_string()).min(room);
        }
        self.logs.push(&self.plugin, level, message, &fields);
        let mut text = printable(message).to_string();
        let mut bytes = FRAME;
        match speaker {
            Speaker::Guest => {
                for (key, value) in &fields {
                    text.push_str(&format!(" {}={value:?}", printable(key)));
                }
                fields.clear();
            }
            Speaker::Host => {
                bytes += fields
                    .iter()
                    .map(|(key, value)| key.len() + size_in_json(&printable(value).to_string()))
                    .sum::<usize>();
            }
        }
        self.control.lock().output.charge(bytes + size_in_json(&text));
        self.emit(speaker, level, &text, &fields);
    }

    /// The only function that writes a plugin's lines to the host's log.
    fn emit(&self, speaker: Speaker, level: LogLevel, text: &str, fields: &[(String, String)]) {
        let plugin = &*self.plugin;
        let of = |name: &str| {
            fields.iter().find(|(key, _)| key == name).map(|(_, value)| display(printable(value)))
        };
        let (watch, key, index) = (of("watch"), of("key"), of("index"));
        let (attempt, reconciling) = (of("attempt"), of("reconciling"));
        macro_rules! event {
            ($target:literal) => {
                match level {
                    LogLevel::Debug => {
                        tracing::debug!(target: $target, plugin, watch, key, index, attempt, reconciling, "{text}");
                    }
                    LogLevel::Info => {
                        tracing::info!(target: $target, plugin, watch, key, index, attempt, reconciling, "{text}");
                    }
                    LogLevel::Warn => {
                        tracing::warn!(target: $target, plugin, watch, key, index, attempt, reconciling, "{text}");
                    }
                    LogLevel::Error => {
                        tracing::error!(target: $target, plugin, watch, key, index, attempt, reconciling, "{text}");
                    }
                }
            };
        }
        match speaker {
            Speaker::Guest => event!("plugin"),
            Speaker::Host => event!("pilothouse_controller::plugin"),
        }
    }
}

#[cfg(test)]
mod tests;
