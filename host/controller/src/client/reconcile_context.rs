//! On whose behalf a request is sent.

use std::sync::Arc;

use crate::runtime::queue::ReconcileKey;
use crate::trace::ReconcileTrace;

/// The reconcile that a request belongs to. Both members are `None` for calls that are no reconciles.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReconcileContext<'a> {
    /// The key that is being reconciled.
    pub(crate) item: Option<&'a ReconcileKey>,
    /// The trace of the reconcile; `None` without tracing.
    pub(crate) trace: Option<&'a Arc<ReconcileTrace>>,
}
