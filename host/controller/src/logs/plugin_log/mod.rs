//! Writes everything to the log of one plugin, whether from its guests or from the host about it.
//!
//! One rate limit covers all of it: a plugin that cannot flood the log with `log` calls must not be able to
//! do so by failing. Changes of the plugin's state have a small limit of their own, so that no flood hides
//! that a plugin was stopped.

use std::fmt::{Arguments, Display};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_plugin::{InstanceLimits, LogLevel, LogSource};
use tokio::time::Instant;
use tracing::field::display;

use super::PluginLogs;
use super::line_limiter::{DroppedLines, EmptyBucket, LineLimiter, Rate};
use super::repeats::{FailedKey, RepeatedFailures, Summary};
use super::text::{fitting_prefix, format_prefix, printable, printable_quoted, size_in_json};
use crate::config::limits::format_quantity;

/// The rate for changes of a plugin's state: more than a plugin that keeps backing off and recovering needs.
const STATE_RATE: Rate = Rate { lines: 2, bytes: 8 << 10 };
/// Limit in bytes for a state change's text.
const MAX_STATE_SIZE: usize = 4 << 10;
/// The bytes of a line besides its text: time, level, names.
const LINE_OVERHEAD: usize = 128;
/// Extra bytes for the host's remarks on a line filled by a guest: that the line was cut, and what follows
/// from a failure.
const REMARK_SIZE: usize = 256;
/// Limit in bytes for a failure's text in a summary.
const MAX_SUMMARY_SIZE: usize = 256;
/// Limit in bytes for the key in a summary: the longest namespace, a slash and the longest name.
const MAX_KEY_SIZE: usize = 63 + 1 + 253;

/// The log of one plugin. Cheap to clone. All logs of the same name share one limit.
#[derive(Clone)]
pub(crate) struct PluginLog {
    plugin: Arc<str>,
    logs: PluginLogs,
    budget: Arc<Mutex<LogBudget>>,
}

/// The state of one plugin's rate limits.
pub(super) struct LogBudget {
    output: LineLimiter,
    states: LineLimiter,
    repeats: RepeatedFailures,
    line_size: usize,
}

impl Default for LogBudget {
    fn default() -> Self {
        let (limits, now) = (InstanceLimits::default(), Instant::now());
        Self {
            output: LineLimiter::new(rate(&limits), now),
            states: LineLimiter::new(STATE_RATE, now),
            repeats: RepeatedFailures::default(),
            line_size: limits.log_line_size,
        }
    }
}

fn rate(limits: &InstanceLimits) -> Rate {
    let bytes = u32::try_from(limits.log_bytes_per_second).unwrap_or(u32::MAX);
    Rate { lines: limits.log_lines_per_second, bytes }
}

/// Where something happened, as key-value pairs.
type Fields<'a> = &'a [(&'a str, &'a dyn Display)];

/// Names of fields that only the host gives to lines.
const HOST_FIELDS: [&str; 3] = ["attempt", "reconciling", "trace_id"];

impl PluginLog {
    pub(super) fn new(plugin: Arc<str>, logs: PluginLogs, budget: Arc<Mutex<LogBudget>>) -> Self {
        Self { plugin, logs, budget }
    }

    /// The kept lines of all plugins.
    #[cfg(test)]
    pub(crate) fn all(&self) -> &PluginLogs {
        &self.logs
    }

    /// Applies the limits of a version.
    pub(crate) fn set_limits(&self, limits: &InstanceLimits) {
        let mut budget = self.budget.lock();
        budget.output.set_rate(rate(limits));
        budget.line_size = limits.log_line_size;
    }

    /// Writes a line of the guest, unless the limits drop it. `context` are the host's fields, whose names the guest's fields cannot have.
    /// Returns whether the line was written.
    pub(crate) fn guest(
        &self,
        source: LogSource,
        level: LogLevel,
        message: &str,
        context: Fields<'_>,
        mut fields: Vec<(String, String)>,
    ) -> bool {
        let (admitted, dropped_lines) = {
            let (mut budget, now) = (self.budget.lock(), Instant::now());
            let admitted = budget.output.try_admit(now).then_some(budget.line_size);
            (admitted, budget.output.take_due_report(now))
        };
        self.report(dropped_lines);
        let Some(size) = admitted else { return false };
        let is_of_host =
            |name: &str| HOST_FIELDS.contains(&name) || context.iter().any(|(reserved, _)| *reserved == name);
        fields.retain(|(name, _)| !is_of_host(name));
        cut(&mut fields, size);
        self.write(source, level, message, to_pairs(context, size), fields, size);
        true
    }

    /// Counts lines of the guest that were dropped because they follow a dropped line.
    pub(crate) fn count_dropped(&self, lines: u64) {
        self.budget.lock().output.count_dropped(lines);
    }

    /// Writes a line of the host about the plugin.
    pub(crate) fn host(&self, level: LogLevel, message: Arguments<'_>, fields: Fields<'_>) {
        let (admitted, dropped_lines) = {
            let (mut budget, now) = (self.budget.lock(), Instant::now());
            let admitted = budget.output.try_admit(now).then_some(budget.line_size);
            (admitted, budget.output.take_due_report(now))
        };
        self.report(dropped_lines);
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
        let size = self.budget.lock().line_size;
        let failure = format_prefix(failure, size);
        let hash_of = |text: &str| BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
        let hash = hash_of(&failure);
        let key = fields
            .iter()
            .find(|(name, _)| *name == "key")
            .map(|(_, key)| format_prefix(format_args!("{key}"), MAX_KEY_SIZE));
        let key = key.as_deref().map(|text| FailedKey { hash: hash_of(text), text });
        let (should_write, summaries) = {
            let (mut budget, now) = (self.budget.lock(), Instant::now());
            let mut summaries = budget.repeats.summaries(now);
            let text = || failure[..failure.floor_char_boundary(MAX_SUMMARY_SIZE)].to_owned();
            let then = || format_prefix(format_args!("{then}"), MAX_SUMMARY_SIZE);
            let should_write = budget.repeats.should_write(hash, text, then, key, now);
            summaries.extend(budget.repeats.summaries(now));
            (should_write, summaries)
        };
        self.summarise(summaries);
        if should_write {
            self.host(level, format_args!("{failure}; {then}"), fields);
        }
    }

    /// Writes a change of the plugin's state. A flood of other lines does not suppress it.
    pub(crate) fn state(&self, level: LogLevel, message: Arguments<'_>) {
        let (is_admitted, dropped_lines) = {
            let (mut budget, now) = (self.budget.lock(), Instant::now());
            (budget.states.try_admit(now), budget.states.take_due_report(now))
        };
        if let Some(DroppedLines { lines, .. }) = dropped_lines {
            let text = format!("{lines} state changes were not written: there are too many");
            self.write_state(LogLevel::Warn, &text);
        }
        if is_admitted {
            let text = format_prefix(message, MAX_STATE_SIZE);
            let written = self.write_state(level, &text[..fitting_prefix(&text, MAX_STATE_SIZE)]);
            self.budget.lock().states.charge(written);
        }
    }

    /// Writes a line about the plugin's state, without a limit, to both logs. Returns its size.
    fn write_state(&self, level: LogLevel, message: &str) -> usize {
        self.logs.push(&self.plugin, LogSource::Host, level, message, Vec::new());
        let text = printable(message).to_string();
        self.emit(LogSource::Host, level, &text, &[]);
        LINE_OVERHEAD + size_in_json(&text)
    }

    /// Writes the pending reports of dropped lines and repeated failures. Called periodically, because no
    /// line may follow a flood.
    pub(crate) fn flush_reports(&self) {
        let (dropped_lines, summaries) = {
            let (mut budget, now) = (self.budget.lock(), Instant::now());
            (budget.output.take_due_report(now), budget.repeats.summaries(now))
        };
        self.report(dropped_lines);
        self.summarise(summaries);
    }

    /// Writes the pending reports, also of repeated failures that are still counted: what follows is about another version.
    pub(crate) fn end_version(&self) {
        let summaries = self.budget.lock().repeats.drain();
        self.summarise(summaries);
        self.flush_reports();
    }

    fn summarise(&self, summaries: Vec<Summary>) {
        for summary in summaries {
            self.host(LogLevel::Warn, format_args!("{summary}"), &[]);
        }
    }

    fn report(&self, dropped_lines: Option<DroppedLines>) {
        let Some(DroppedLines { lines, empty_bucket, rate }) = dropped_lines else { return };
        let limit = match empty_bucket {
            EmptyBucket::Lines => format!("logLinesPerSecond is {}", rate.lines),
            EmptyBucket::Bytes => format!("logBytesPerSecond is {}", format_quantity(rate.bytes.into())),
        };
        self.write_host(
            LogLevel::Warn,
            format_args!("{lines} log lines dropped: limits.{limit}"),
            &[],
            REMARK_SIZE,
        );
    }

    fn write_host(&self, level: LogLevel, message: Arguments<'_>, fields: Fields<'_>, size: usize) {
        let message = format_prefix(message, size + REMARK_SIZE + 1);
        self.write(LogSource::Host, level, &message, to_pairs(fields, size), Vec::new(), size);
    }

    /// Writes a line that was admitted. Its size is known only here. `context` are the host's fields, and `fields` the guest's.
    fn write(
        &self,
        source: LogSource,
        level: LogLevel,
        message: &str,
        context: Vec<(String, String)>,
        fields: Vec<(String, String)>,
        size: usize,
    ) {
        let end = match fitting_prefix(message, size + REMARK_SIZE) {
            whole if whole == message.len() => whole,
            _ => fitting_prefix(message, size),
        };
        let cut = (end < message.len()).then(|| {
            format!("{} … (cut at limits.logLineSize of {})", &message[..end], format_quantity(size as u64))
        });
        let message = cut.as_deref().unwrap_or(message);
        let mut text = printable(message).to_string();
        for (key, value) in &fields {
            text.push_str(&format!(" {}={}", printable(key), printable_quoted(value)));
        }
        let context_size = context
            .iter()
            .map(|(key, value)| key.len() + size_in_json(&printable(value).to_string()))
            .sum::<usize>();
        self.budget.lock().output.charge(LINE_OVERHEAD + context_size + size_in_json(&text));
        self.emit(source, level, &text, &context);
        let all = context.into_iter().chain(fields).collect();
        self.logs.push(&self.plugin, source, level, message, all);
    }

    /// The only function that writes a plugin's lines to the host's log.
    fn emit(&self, source: LogSource, level: LogLevel, text: &str, fields: &[(String, String)]) {
        let plugin = &*self.plugin;
        let of = |name: &str| {
            fields.iter().find(|(key, _)| key == name).map(|(_, value)| display(printable(value)))
        };
        let (watch, key, index) = (of("watch"), of("key"), of("index"));
        let (attempt, reconciling, trace_id) = (of("attempt"), of("reconciling"), of("trace_id"));
        macro_rules! event {
            ($target:literal) => {
                match level {
                    LogLevel::Debug => {
                        tracing::debug!(target: $target, plugin, watch, key, index, attempt, reconciling, trace_id, "{text}");
                    }
                    LogLevel::Info => {
                        tracing::info!(target: $target, plugin, watch, key, index, attempt, reconciling, trace_id, "{text}");
                    }
                    LogLevel::Warn => {
                        tracing::warn!(target: $target, plugin, watch, key, index, attempt, reconciling, trace_id, "{text}");
                    }
                    LogLevel::Error => {
                        tracing::error!(target: $target, plugin, watch, key, index, attempt, reconciling, trace_id, "{text}");
                    }
                }
            };
        }
        match source {
            LogSource::Log | LogSource::Stdout | LogSource::Stderr => event!("plugin"),
            LogSource::Host => event!("pilothouse_controller::plugin"),
        }
    }
}

/// Returns the host's fields as text, which take at most `size` bytes together.
fn to_pairs(fields: Fields<'_>, size: usize) -> Vec<(String, String)> {
    let mut pairs: Vec<_> = fields
        .iter()
        .map(|(key, value)| ((*key).to_owned(), format_prefix(format_args!("{value}"), size)))
        .collect();
    cut(&mut pairs, size);
    pairs
}

/// Cuts names and values so that all take at most `room` bytes in the log.
fn cut(fields: &mut [(String, String)], mut room: usize) {
    for text in fields.iter_mut().flat_map(|(key, value)| [key, value]) {
        text.truncate(fitting_prefix(text, room));
        room -= size_in_json(&printable(text).to_string()).min(room);
    }
}

#[cfg(test)]
mod tests;
