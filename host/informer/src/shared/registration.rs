use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::Object;
use tokio::time::Instant;

use super::subscriber::Subscriber;
use crate::key::Restriction;
use crate::store::ObjectMap;

/// A subscriber's place at an informer.
pub(super) struct Registration {
    pub(super) subscriber: Arc<Subscriber>,
    pub(super) restriction: Option<Restriction>,
    /// What the subscriber knows from the cache that it came from, until this one is synced.
    pub(super) pending_transfer: Option<KnownObjects>,
    pub(super) resync: Option<Resync>,
}

pub(super) struct Resync {
    pub(super) period: Duration,
    pub(super) due: Instant,
    /// Whether the resync under way is for this subscriber.
    pub(super) running: bool,
}

/// What a subscriber takes along when it is moved to another informer.
pub(super) struct TransferState {
    pub(super) known_objects: KnownObjects,
    pub(super) resync: Option<Duration>,
}

/// What a subscriber was told of by another informer.
pub(super) struct KnownObjects {
    pub(super) objects: ObjectMap,
    /// Whether that was all that there was.
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

    pub(super) fn sees(&self, object: &Object) -> bool {
        self.restriction.as_ref().is_none_or(|restriction| restriction.matches(&object.closed()))
    }
}
