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
                    _ => metrics.faults.inc(),
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

/// Reports a reconcile that failed and is not tried again.
fn report_terminal_error(
    plugin: &PluginServices,
    errors: &RecentErrors,
    item: &ReconcileKey,
    problem: &dyn Display,
    exported: Option<ExportedTrace>,
) {
    record_error(plugin, errors, item, problem);
    plugin.log.failure(
        LogLevel::Error,
        format_args!("failed with a terminal error: {problem}"),
        &"not tried again until the object changes",
        &fields(item, None, exported.as_ref()),
    );
}

/// Reports a reconcile that failed and is tried again; `attempt` counts from 1.
fn report_failure(
    plugin: &PluginServices,
    errors: &RecentErrors,
    (item, attempt): (&ReconcileKey, u32),
    failure: &Failure,
    retry: &RetryDelay,
    exported: Option<ExportedTrace>,
) {
    record_error(plugin, errors, item, failure);
    plugin.log.failure(
        LogLevel::Warn,
        format_args!("failed: {failure}"),
        retry,
        &fields(item, Some(&attempt), exported.as_ref()),
    );
}

/// Records a reconcile that failed in the metrics and in the plugin's recent errors.
fn record_error(plugin: &PluginServices, errors: &RecentErrors, item: &ReconcileKey, problem: &dyn Display) {
    plugin.metrics.failed.inc();
    plugin.metrics.errors.inc();
    errors.record_error(&item.watch, item.key.as_str(), problem);
}

/// Returns the fields of a log line about a reconcile. A trace that is not exported has none.
fn fields<'a>(
    ReconcileKey { watch, key }: &'a ReconcileKey,
    attempt: Option<&'a u32>,
    exported: Option<&'a ExportedTrace>,
) -> Vec<(&'static str, &'a dyn Display)> {
    let mut fields: Vec<(&'static str, &'a dyn Display)> = Vec::with_capacity(4);
    fields.push(("watch", watch));
    fields.push(("key", key));
    if let Some(attempt) = attempt {
        fields.push(("attempt", attempt));
    }
    if let Some(trace) = exported {
        fields.push(("trace_id", &trace.id));
    }
    fields
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
