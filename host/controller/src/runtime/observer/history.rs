//! What a plugin's observers have received, passed from one observer to the next.

use std::sync::{Arc, Weak};

use pilothouse_model::hash::HashMap;
use pilothouse_model::{Object, ObjectKey, ResourceType};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::delivery::DeliveryTracker;
use crate::load::version::{ObserverSubscription, Version};

/// The delivery history of a plugin. One observer at a time holds it; the next waits until that has ended. Cheap to clone.
#[derive(Clone, Default)]
pub(in crate::runtime) struct DeliveryHistory(Arc<Mutex<SavedDeliveries>>);

/// What the last observer has left.
#[derive(Default)]
pub(super) struct SavedDeliveries {
    /// The version of that observer.
    version: Weak<Version>,
    trackers: Vec<(SubscriptionSource, DeliveryTracker)>,
    inherited: Vec<InheritedObjects>,
}

/// The watch and the resource of a subscription, which identify it across versions.
#[derive(Clone)]
struct SubscriptionSource {
    watch: Arc<str>,
    resource: ResourceType,
}

/// Objects that observers of earlier versions have received. Once the current observer has received all present objects, it must also
/// receive the deletion of those that are gone.
pub(super) struct InheritedObjects {
    source: SubscriptionSource,
    pub(super) objects: HashMap<ObjectKey, Object>,
}

impl SubscriptionSource {
    fn of(feed: &ObserverSubscription) -> Self {
        Self { watch: Arc::clone(&feed.watch), resource: feed.subscription.key().resource.clone() }
    }

    fn has_same_resource(&self, feed: &ObserverSubscription) -> bool {
        crate::runtime::handover::is_same_resource(&self.resource, &feed.subscription.key().resource)
    }
}

impl DeliveryHistory {
    /// Forgets everything, because the running version has no observer.
    pub(in crate::runtime) fn clear(&self) {
        // An observer that still holds the lock is about to end. What it saves then is what a later observer inherits anyway.
        if let Ok(mut saved) = self.0.try_lock() {
            *saved = SavedDeliveries::default();
        }
    }

    /// Waits until the previous observer has ended, and locks the history.
    pub(super) async fn lock(&self) -> OwnedMutexGuard<SavedDeliveries> {
        Arc::clone(&self.0).lock_owned().await
    }
}

impl SavedDeliveries {
    /// Takes the state with which the observer of this version starts: its own trackers if it was restarted, otherwise new ones and the
    /// objects that its predecessors have received.
    pub(super) fn take(&mut self, version: &Arc<Version>) -> (Vec<DeliveryTracker>, Vec<InheritedObjects>) {
        let saved = std::mem::take(self);
        let is_same = std::ptr::eq(saved.version.as_ptr(), Arc::as_ptr(version));
        let mut inherited = saved.inherited;
        if is_same && saved.trackers.len() == version.observer_subscriptions.len() {
            return (saved.trackers.into_iter().map(|(_, tracker)| tracker).collect(), inherited);
        }
        let trackers = saved.trackers.into_iter();
        inherited.extend(
            trackers.map(|(source, tracker)| InheritedObjects { source, objects: tracker.into_delivered() }),
        );
        inherited.retain(|inherited| !inherited.objects.is_empty());
        (version.observer_subscriptions.iter().map(|_| DeliveryTracker::default()).collect(), inherited)
    }

    /// Saves the state of an observer that ends.
    pub(super) fn save(
        &mut self,
        version: &Arc<Version>,
        trackers: Vec<DeliveryTracker>,
        inherited: Vec<InheritedObjects>,
    ) {
        let sources = version.observer_subscriptions.iter().map(SubscriptionSource::of);
        let trackers = sources.zip(trackers).collect();
        *self = Self { version: Arc::downgrade(version), trackers, inherited };
    }
}

impl InheritedObjects {
    /// Returns the positions of the subscriptions that deliver these objects now: those of the same watch and resource, or else all of the same
    /// resource.
    pub(super) fn observer_subscriptions(
        &self,
        observer_subscriptions: &[ObserverSubscription],
    ) -> Vec<usize> {
        let same = || {
            (0..observer_subscriptions.len())
                .filter(|position| self.source.has_same_resource(&observer_subscriptions[*position]))
        };
        let named: Vec<_> =
            same().filter(|position| observer_subscriptions[*position].watch == self.source.watch).collect();
        if named.is_empty() { same().collect() } else { named }
    }
}
