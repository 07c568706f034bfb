//! Records the calls of guests.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_controller::{CallRecorderFactory, ObservedVersion};
use pilothouse_plugin::{
    CallRecorder, Failure, GuestCall, GuestCallRecorder, GuestResult, HostAnswer, HostCall, HostRequest,
    Outcome,
};

use super::reconciles::NextReconcile;
use super::shared::Shared;
use crate::run::{EventKind, ReconcileResult};
use crate::search::points::is_write_method;

/// Creates the recorders of the plugins of one host.
pub(super) struct WorldRecorder(pub(super) Shared);

impl CallRecorderFactory for WorldRecorder {
    fn recorder_for(&self, version: &ObservedVersion<'_>) -> Option<Arc<dyn CallRecorder>> {
        let plugin = version.plugin.to_string();
        Some(Arc::new(PluginCalls { shared: self.0.clone(), plugin }))
    }
}

struct PluginCalls {
    shared: Shared,
    plugin: String,
}

impl CallRecorder for PluginCalls {
    fn begin(&self, call: GuestCall) -> Option<Box<dyn GuestCallRecorder>> {
        let mut state = self.shared.lock();
        if state.crash.is_some() {
            return None;
        }
        let mut running =
            RunningCall { shared: self.shared.clone(), plugin: self.plugin.clone(), reconcile: None };
        match call {
            GuestCall::Reconcile(request) => {
                let (watch, key) = (request.watch.to_string(), request.key.to_string());
                let others_run = state.reconciles.is_reconciling(&self.plugin);
                let is_replacement = state.instances.reconcile(&self.plugin, others_run);
                let now = state.now();
                let reconcile = state.reconciles.begin(&self.plugin, &watch, &key, now);
                running.reconcile = Some(Reconcile { id: reconcile, watch: watch.clone(), key: key.clone() });
                state.record(EventKind::ReconcileStarted {
                    reconcile,
                    plugin: self.plugin.clone(),
                    watch,
                    key,
                    reasons: request.reasons.iter().map(|reason| reason.name().to_owned()).collect(),
                    attempt: request.attempt,
                    is_replacement,
                });
            }
            other => {
                state.instances.call(&self.plugin, matches!(other, GuestCall::Instantiate));
                state.hash.add_value(&other);
                let time = state.now();
                state.log_call(|| {
                    format!("{time} ms: {} is called: {} {}", self.plugin, other.name(), other.arguments())
                });
            }
        }
        Some(Box::new(running))
    }
}

/// A call of a guest that runs.
struct RunningCall {
    shared: Shared,
    plugin: String,
    /// `None` for other calls than reconciles, and once it has ended.
    reconcile: Option<Reconcile>,
}

struct Reconcile {
    id: u64,
    watch: String,
    key: String,
}

impl RunningCall {
    /// Ends the reconcile.
    fn finish(&mut self, result: ReconcileResult, next: NextReconcile) {
        let Some(Reconcile { id, watch, key }) = self.reconcile.take() else { return };
        let mut state = self.shared.lock();
        // Otherwise, the host has ended, and the reconcile with it.
        if state.crash.is_some() {
            return;
        }
        let now = state.now();
        if state.reconciles.end((&self.plugin, &watch, &key), next, now) == Some(id) {
            if matches!(result, ReconcileResult::Error(_) | ReconcileResult::Fault(_)) {
                state.record_plugin_activity();
            }
            state.record(EventKind::ReconcileEnded { reconcile: id, result });
        }
    }
}

impl GuestCallRecorder for RunningCall {
    fn host_call(&mut self, call: HostCall) {
        let mut state = self.shared.lock();
        if state.crash.is_some() {
            return;
        }
        state.hash.add_debug(&call);
        let time = state.now();
        state.log_call(|| format!("{time} ms: {} calls {}: {call:?}", self.plugin, call.request.function()));
        if let HostRequest::HttpSend { method, url, .. } = &call.request {
            let status = match &call.answer {
                HostAnswer::HttpStatus(status) => Some(*status),
                _ => None,
            };
            let reconcile = self.reconcile.as_ref().map(|reconcile| reconcile.id);
            if is_write_method(method) {
                state.record_plugin_activity();
            }
            state.record(EventKind::Http { reconcile, method: method.clone(), url: url.clone(), status });
        }
    }

    fn end(mut self: Box<Self>, result: GuestResult) {
        match result {
            GuestResult::Reconcile(result) => {
                let next = match &result {
                    Err(Failure::Retry(_) | Failure::Fault(_)) => NextReconcile::Retry,
                    Ok(Outcome::RequeueAfter(delay)) => NextReconcile::After(milliseconds(*delay)),
                    Ok(Outcome::Done) | Err(Failure::Terminal(_)) => NextReconcile::Unplanned,
                };
                let result = match result {
                    Ok(Outcome::Done) => ReconcileResult::Ok,
                    Ok(Outcome::RequeueAfter(delay)) => ReconcileResult::Requeue(milliseconds(delay)),
                    Err(Failure::Retry(message) | Failure::Terminal(message)) => {
                        ReconcileResult::Error(message)
                    }
                    Err(Failure::Fault(fault)) => ReconcileResult::Fault(fault.to_string()),
                };
                self.finish(result, next);
            }
            other => {
                let result = other.to_json().to_string();
                let mut state = self.shared.lock();
                state.hash.add(result.as_bytes());
                let time = state.now();
                state.log_call(|| format!("{time} ms: {} returns {result}", self.plugin));
            }
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.finish(ReconcileResult::Abandoned, NextReconcile::Unplanned);
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
