//! What follows from the outcome of a reconcile: counts, the journal, log lines, and when the key is tried again.

use std::fmt::Display;
use std::time::Duration;

use pilothouse_plugin::{Failure, FaultKind, LogLevel, Outcome, Reason};
use tokio::time::Instant;

use crate::client::in_flight::HeldItem;
use crate::explain::journal::{JournalReconcile, ReconcileOutcome, reason_bits};
use crate::guest_host::PluginServices;
use crate::lifecycle::RecentErrors;
use crate::runtime::queue::ReconcileKey;
use crate::trace::ExportedTrace;

/// A call of `reconcile` that has ended.
pub(super) struct FinishedReconcile {
    pub(super) outcome: Result<Outcome, Failure>,
    pub(super) started: Instant,
    pub(super) time: Duration,
}

impl FinishedReconcile {
    /// Returns what the journal keeps of the reconcile.
    fn record(&self, attempts: u32, reasons: &[Reason], trace: u32) -> JournalReconcile {
        JournalReconcile {
            microseconds: u32::try_from(self.time.as_micros()).unwrap_or(u32::MAX),
            attempt: u16::try_from(attempts).unwrap_or(u16::MAX),
            reasons: reason_bits(reasons),
            outcome: ReconcileOutcome::of(&self.outcome),
            trace,
        }
    }
}

/// Requeues or forgets the key, depending on the outcome. Runs before the key is released, so that it cannot be lost.
pub(super) fn apply_outcome(
    plugin: &PluginServices,
    errors: &RecentErrors,
    item: &mut HeldItem,
    reasons: &[Reason],
    finished: FinishedReconcile,
    exported: Option<ExportedTrace>,
) {
    record(plugin, item, reasons, &finished, exported);
    let metrics = &plugin.metrics;
    match finished.outcome {
        Ok(Outcome::Done) => {
            errors.record_success();
            metrics.succeeded.inc();
            item.forget();
        }
        Ok(Outcome::RequeueAfter(delay)) => {
            errors.record_success();
            metrics.requeued_after.inc();
            item.forget();
            plugin.queue.requeue_after(item, reasons, delay);
        }
        Err(Failure::Terminal(problem)) => {
            item.forget();
            metrics.terminal_errors.inc();
            report_terminal_error(plugin, errors, item.key(), &problem, exported);
        }
        Err(failure) => {
            if let Failure::Fault(fault) = &failure {
                match fault.kind() {
                    FaultKind::Timeout { .. } => metrics.timeouts.inc(),
                    _ => metrics.panics.inc(),
                };
            }
            let attempt = item.attempts() + 1;
            let retry = RetryDelay(plugin.queue.retry(item, reasons));
            report_failure(plugin, errors, (item.key(), attempt), &failure, &retry, exported);
        }
    }
}

/// Records a reconcile in the metrics of durations, the journal and the slowest reconciles.
fn record(
    plugin: &PluginServices,
    item: &HeldItem,
    reasons: &[Reason],
    finished: &FinishedReconcile,
    exported: Option<ExportedTrace>,
) {
    let metrics = &plugin.metrics;
    let labels = || exported.map(|trace| trace.labels());
    metrics.reconcile_time.observe(finished.time.as_secs_f64(), labels(), None);
    if let Some(event_at) = item.event_at() {
        let delay = finished.started.saturating_duration_since(event_at);
        metrics.event_to_reconcile.observe(delay.as_secs_f64(), labels(), None);
    }
    plugin.journal.record_reconcile(
        &item.key().watch,
        &item.key().key,
        finished.record(item.attempts(), reasons, exported.map_or(0, |trace| trace.number)),
    );
    plugin.slow_reconciles.record(item.key(), finished.time, || plugin.environment.clock.now());
}

/// Counts, records and logs a reconcile that failed and is not tried again.
fn report_terminal_error(
    plugin: &PluginServices,
    errors: &RecentErrors,
    ReconcileKey { watch, key }: &ReconcileKey,
    problem: &dyn Display,
    exported: Option<ExportedTrace>,
) {
    plugin.metrics.failed.inc();
    plugin.metrics.errors.inc();
    errors.record_error(watch, key.as_str(), problem);
    plugin.log.failure(
        LogLevel::Error,
        format_args!("failed with a terminal error: {problem}"),
        &"not tried again until the object changes",
        traced_fields(exported, &[("watch", watch), ("key", key), ("trace_id", &TraceIdField(exported))]),
    );
}

/// Counts, records and logs a reconcile that failed and is tried again; `attempt` counts from 1.
fn report_failure(
    plugin: &PluginServices,
    errors: &RecentErrors,
    (ReconcileKey { watch, key }, attempt): (&ReconcileKey, u32),
    failure: &Failure,
    retry: &RetryDelay,
    exported: Option<ExportedTrace>,
) {
    plugin.metrics.failed.inc();
    plugin.metrics.errors.inc();
    errors.record_error(watch, key.as_str(), failure);
    plugin.log.failure(
        LogLevel::Warn,
        format_args!("failed: {failure}"),
        retry,
        traced_fields(
            exported,
            &[("watch", watch), ("key", key), ("attempt", &attempt), ("trace_id", &TraceIdField(exported))],
        ),
    );
}

/// Returns the fields of a log line, of which the last is the trace's identifier, without that if the trace is not exported.
fn traced_fields<'a, 'b>(
    exported: Option<ExportedTrace>,
    fields: &'b [(&'a str, &'a dyn Display)],
) -> &'b [(&'a str, &'a dyn Display)] {
    if exported.is_some() { fields } else { &fields[..fields.len() - 1] }
}

/// The identifier of a trace in a log line.
struct TraceIdField(Option<ExportedTrace>);

impl std::fmt::Display for TraceIdField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |trace| write!(f, "{}", trace.id))
    }
}

/// The delay of a retry, for a log line; `None` once the queue is shut down.
struct RetryDelay(Option<Duration>);

impl std::fmt::Display for RetryDelay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(delay) => write!(f, "tried again in {delay:?}"),
            None => f.write_str("not tried again, the plugin is stopping"),
        }
    }
}
