//! The subscribers of an informer: who they are, which changes each receives, and when they are woken.

use std::sync::Arc;

use pilothouse_model::{Deletion, Object};
use tokio::time::Instant;

use super::change::Change;
use super::dispatch_index::DispatchIndex;
use super::registration::Registration;
use super::subscriber::Subscriber;
use crate::store::ScopeId;

/// The subscribers of an informer and the state that is read and changed together with them.
#[derive(Default)]
pub(super) struct Subscribers {
    pub(super) registrations: Vec<Registration>,
    /// The same subscribers, by what they receive.
    pub(super) index: DispatchIndex<Arc<Subscriber>>,
    /// Subscribers that have to be woken at the end of the turn.
    pub(super) to_wake: Vec<Arc<Subscriber>>,
    /// Whether any subscriber may have to be woken.
    pub(super) wake_all: bool,
    /// The subscribers whose backlogs began or stopped to merge with the change that is being pushed.
    pub(super) merging_changed: Vec<(ScopeId, bool)>,
    pub(super) synced: bool,
    pub(super) stopped: bool,
    pub(super) next_tick: Option<Instant>,
    /// The deletion that is being pushed to the subscribers, with the object that was cached. It is set during the push, so that
    /// the push can be repeated if it panics.
    pub(super) pending_deletion: Option<(Object, Deletion)>,
    /// How many of the reflector's failures have been added to the counters.
    pub(super) counted_failures: u64,
}

impl Subscribers {
    #[cfg(test)]
    pub(super) fn set_pending_deletion(&mut self, stored: Object, deletion: Deletion) {
        self.pending_deletion = Some((stored, deletion));
    }

    pub(super) fn add(&mut self, registration: Registration) {
        let subscriber = &registration.subscriber;
        let restriction = registration.restriction.as_ref();
        self.index.insert(subscriber.id, Arc::clone(subscriber), restriction, subscriber.condition());
        self.index.set_receives_all(subscriber.id, subscriber.record_merging());
        self.registrations.push(registration);
    }

    pub(super) fn remove(&mut self, subscriber: &Arc<Subscriber>) {
        self.registrations.retain(|registration| !Arc::ptr_eq(&registration.subscriber, subscriber));
        self.to_wake.retain(|other| !Arc::ptr_eq(other, subscriber));
        self.index.remove(subscriber.id);
    }

    /// Wakes all subscribers that have new notifications.
    pub(super) fn wake(&mut self) {
        if std::mem::take(&mut self.wake_all) {
            self.registrations.iter().for_each(|registration| registration.subscriber.wake());
        }
        self.to_wake.drain(..).for_each(|subscriber| subscriber.wake());
    }

    /// Pushes the change to the subscribers that it concerns.
    ///
    /// Merging changes the notifications that are pending, and its bound needs every change. So a subscriber whose backlog merges
    /// receives every change until it has caught up.
    pub(super) fn push(&mut self, change: &Change<'_>) {
        let Self { index, to_wake, merging_changed, .. } = self;
        index.deliver(change, |subscriber, notification| {
            let pushed = subscriber.push_notification(notification.clone());
            if pushed.must_wake {
                to_wake.push(Arc::clone(subscriber));
            }
            merging_changed.extend(pushed.merging_change.map(|is_merging| (subscriber.id, is_merging)));
        });
        for (id, is_merging) in self.merging_changed.drain(..) {
            self.index.set_receives_all(id, is_merging);
        }
    }
}
