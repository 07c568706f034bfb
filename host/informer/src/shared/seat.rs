use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::Object;
use tokio::time::Instant;

use super::outlet::Outlet;
use crate::key::Restriction;
use crate::store::Objects;

/// A subscriber's place at an informer.
pub(super) struct Seat {
    pub(super) outlet: Arc<Outlet>,
    pub(super) restriction: Option<Restriction>,
    /// What the subscriber knows from the cache that it came from, until this one is synced.
    pub(super) moved_from: Option<Knowledge>,
    pub(super) resync: Option<Resync>,
}

pub(super) struct Resync {
    pub(super) period: Duration,
    pub(super) due: Instant,
    /// Whether the resync under way is for this subscriber.
    pub(super) running: bool,
}

/// What a subscriber takes along when it is moved to another informer.
pub(super) struct Luggage {
    pub(super) knowledge: Knowledge,
    pub(super) resync: Option<Duration>,
}

/// What a subscriber was told of by another informer.
pub(super) struct Knowledge {
    pub(super) objects: Objects,
    /// Whether that was all that there was.
    pub(super) synced: bool,
}

impl Seat {
    pub(super) fn new(
        outlet: &Arc<Outlet>,
        restriction: Option<Restriction>,
        resync: Option<Duration>,
    ) -> Self {
        let resync = resync.map(|period| Resync { period, due: Instant::now() + period, running: false });
        Self { outlet: Arc::clone(outlet), restriction, moved_from: None, resync }
    }

    pub(super) fn is_narrowed(&self) -> bool {
        self.restriction.is_some()
    }

    pub(super) fn sees(&self, object: &Object) -> bool {
        self.restriction.as_ref().is_none_or(|restriction| restriction.matches(&object.closed()))
    }
}
