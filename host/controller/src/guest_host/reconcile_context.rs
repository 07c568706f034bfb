//! The reconcile that a guest's call belongs to.

use std::sync::Arc;

use pilothouse_plugin::Call;

use crate::client::ReconcileContext;
use crate::runtime::queue::ReconcileKey;
use crate::trace::ReconcileTrace;

/// The reconcile that a request of a guest belongs to.
pub(super) struct OwnedReconcileContext {
    item: Option<ReconcileKey>,
    trace: Option<Arc<ReconcileTrace>>,
}

impl OwnedReconcileContext {
    /// Returns the origin of a request in this call.
    pub(super) fn of(call: &Call) -> Self {
        let item = match call {
            Call::Reconcile(request) => {
                Some(ReconcileKey { watch: Arc::clone(&request.watch), key: request.key.clone() })
            }
            _ => None,
        };
        Self { item, trace: trace(call) }
    }

    pub(super) fn caller(&self) -> ReconcileContext<'_> {
        ReconcileContext { item: self.item.as_ref(), trace: self.trace.as_ref() }
    }
}

/// Returns the trace of the reconcile; `None` without tracing, and for other calls.
pub(super) fn trace(call: &Call) -> Option<Arc<ReconcileTrace>> {
    match call {
        Call::Reconcile(request) => request.host_context.as_ref()?.get(),
        _ => None,
    }
}
