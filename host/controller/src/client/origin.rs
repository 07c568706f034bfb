//! Which plugin, and which of its reconciles, a request belongs to.

use std::sync::Arc;

use pilothouse_model::ObjectKey;

use crate::runtime::queue::ReconcileKey;

/// The origin of a request that a guest sent. It is an extension of the HTTP request, so that the service below a [`kube::Client`] can tell
/// the requests of reconciles apart, and those of the host, which have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    /// The plugin's name.
    pub plugin: Arc<str>,
    /// The target watch and the key that is being reconciled; `None` for other calls of guests.
    pub reconcile: Option<(Arc<str>, ObjectKey)>,
}

impl RequestOrigin {
    /// Returns the origin of a request in a reconcile of `item`.
    pub(crate) fn new(plugin: &Arc<str>, item: Option<&ReconcileKey>) -> Self {
        let reconcile = item.map(|item| (Arc::clone(&item.watch), item.key.clone()));
        Self { plugin: Arc::clone(plugin), reconcile }
    }
}
