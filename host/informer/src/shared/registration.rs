//! A subscriber's registration at an informer, and the state that moves with it to another informer.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::Object;
use tokio::time::Instant;

use super::subscriber::Subscriber;
use crate::key::Restriction;
use crate::store::ObjectMap;

/// A subscriber as it is registered at one informer.
pub(super) struct Registration {
    pub(super) subscriber: Arc<Subscriber>,
    pub(super) restriction: Option<Restriction>,
    /// What the subscriber knows from its previous informer; `None` once this informer has synced and sent the difference.
    pub(super) pending_transfer: Option<KnownObjects>,
    pub(super) resync: Option<Resync>,
}

/// A subscriber's periodic resync.
pub(super) struct Resync {
    pub(super) period: Duration,
    /// When the next resync is due.
    pub(super) due: Instant,
    /// Whether this subscriber takes part in the resync in progress.
    pub(super) running: bool,
}

/// The state that a subscriber keeps when it is moved to another informer.
pub(super) struct TransferState {
    pub(super) known_objects: KnownObjects,
    /// The resync period.
    pub(super) resync: Option<Duration>,
}

/// The objects that a subscriber has been notified of by its previous informer.
pub(super) struct KnownObjects {
    pub(super) objects: ObjectMap,
    /// Whether they include the whole initial list.
    pub(super) synced: bool,
}

impl Registration {
    pub(super) fn new(
        subscriber: &Arc<Subscriber>,
        restriction: Option<Restriction>,
        resync: Option<Duration>,
    ) -> Self {
        let resync = resync.map(|period| Resync { period, due: Instant::now() + period, running: false });
        Self { subscriber: Arc::clone(subscriber), restriction, pending_transfer: None, resync }
    }

    pub(super) fn is_restricted(&self) -> bool {
        self.restriction.is_some()
    }

    /// Whether the subscriber sees the object.
    pub(super) fn matches(&self, object: &Object) -> bool {
        self.restriction.as_ref().is_none_or(|restriction| restriction.matches(&object.fresh_view()))
    }
}
