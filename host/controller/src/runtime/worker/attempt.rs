//! A key that a worker reconciles, from the queue until it is handled.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::{HostContext, Reason, Request};

use super::outcome::FinishedReconcile;
use crate::client::in_flight::HeldItem;
use crate::guest_host::PluginServices;
use crate::load::version::Version;
use crate::runtime::queue::ReconcileKey;
use crate::trace::{EndedReconcile, ExportedTrace, ReconcileTrace, TRACEPARENT};

/// A key that a worker has taken from the queue. A worker may be aborted at any `await`: a key that is not handled by then goes back into
/// the queue.
pub(super) struct ReconcileAttempt<'a> {
    plugin: &'a PluginServices,
    pub(super) item: HeldItem,
    pub(super) request: Arc<Request>,
    /// `None` without tracing.
    pub(super) trace: Option<Arc<ReconcileTrace>>,
    pub(super) is_handled: bool,
}

impl<'a> ReconcileAttempt<'a> {
    pub(super) fn new(plugin: &'a PluginServices, item: HeldItem, reasons: Vec<Reason>) -> Self {
        let ReconcileKey { watch, key } = item.key().clone();
        let (attempt, event_at) = (item.attempts(), item.event_at());
        let trace = plugin.tracer.begin(item.ready_for(), item.events());
        let labels = trace.as_ref().and_then(|trace| trace.sampled_labels());
        plugin.metrics.queue_latency.observe(item.ready_for().as_secs_f64(), labels, None);
        let host_context = trace.clone().map(HostContext::new);
        let traceparent = trace.as_ref().and_then(|trace| trace.sampled_traceparent());
        let extra = traceparent.map(|value| (TRACEPARENT.to_owned(), value)).into_iter().collect();
        let request = Request { watch, key, reasons, attempt, extra, event_at, host_context };
        Self { plugin, item, request: Arc::new(request), trace, is_handled: false }
    }
}

impl ReconcileAttempt<'_> {
    /// Ends the trace, if there is one. Returns it if it is exported.
    pub(super) fn end_trace(&mut self, finished: &FinishedReconcile) -> Option<ExportedTrace> {
        let trace = self.trace.as_ref()?;
        let events = self.item.take_events();
        let ended = EndedReconcile {
            plugin: self.plugin.name.as_str(),
            item: self.item.key(),
            reasons: &self.request.reasons,
            attempt: self.item.attempts(),
            started: finished.started,
            time: finished.time,
            outcome: &finished.outcome,
        };
        trace.end(&ended, events.as_deref())
    }

    /// Queues the key again after a delay.
    pub(super) fn requeue_after_delay(&mut self, delay: Duration) {
        self.plugin.queue.requeue_taken_after(&mut self.item, &self.request.reasons, delay);
        self.is_handled = true;
    }

    /// Queues the key under the new names of its watch, or drops it if no target watch of its resource is left.
    pub(super) fn requeue_renamed(&mut self, version: &Version) {
        let ReconcileKey { watch, key } = self.item.key().clone();
        let names = version.renamed_watches.lock().get(&watch).cloned().unwrap_or_default();
        if names.is_empty() {
            tracing::debug!(plugin = %self.plugin.name, %watch, %key, "dropped: its target watch is gone");
        }
        for name in names {
            self.queue_as(&ReconcileKey { watch: name, key: key.clone() });
        }
        self.item.forget();
        self.is_handled = true;
    }

    fn queue_as(&self, item: &ReconcileKey) {
        let reasons = &self.request.reasons;
        for reason in if reasons.is_empty() { &[Reason::Other] } else { &**reasons } {
            let (priority, event_at) = (self.item.priority(), self.item.event_at());
            self.plugin.queue.add_for_event(item.clone(), *reason, priority, event_at.map(Into::into));
        }
    }
}

impl Drop for ReconcileAttempt<'_> {
    fn drop(&mut self) {
        if self.is_handled {
            return;
        }
        let reasons = &self.request.reasons;
        let reasons = if reasons.is_empty() { &[Reason::Other] } else { &**reasons };
        if !std::thread::panicking() {
            self.plugin.queue.requeue_taken(&mut self.item, reasons);
        } else {
            // The next worker may panic at this key, too, so the key is delayed as after a failure.
            if let Some(delay) = self.plugin.queue.retry(&mut self.item, reasons) {
                self.plugin.queue.requeue_taken_after(&mut self.item, reasons, delay);
            }
        }
        // The item is dropped after this; only then does the queue give the key that was added to a worker.
    }
}

/// [`ReconcileAttempt::requeue_renamed`] for a key that was just taken.
#[cfg(test)]
pub(in crate::runtime) fn requeue_renamed(
    plugin: &PluginServices,
    item: HeldItem,
    reasons: Vec<Reason>,
    version: &Version,
) {
    ReconcileAttempt::new(plugin, item, reasons).requeue_renamed(version);
}
