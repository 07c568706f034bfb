//! A subscriber that replays its notifications at its own pace, and checks that each is consistent with the ones before.

use std::collections::BTreeMap;

use pilothouse_informer::Subscription;
use pilothouse_model::{Notification, Object, ObjectKey};

/// Replays one subscription.
pub(crate) struct Replayer {
    pub(crate) subscription: Subscription,
    /// The objects according to the notifications.
    pub(crate) view: BTreeMap<ObjectKey, Object>,
}

impl Replayer {
    pub(crate) fn new(subscription: Subscription) -> Self {
        Self { subscription, view: BTreeMap::new() }
    }

    /// Takes a batch if one is pending. Returns the number of its notifications.
    pub(crate) fn take_one_batch(&mut self) -> Option<usize> {
        let mut next = tokio_test::task::spawn(self.subscription.next_batch());
        let std::task::Poll::Ready(batch) = next.poll() else { return None };
        drop(next);
        let batch = batch.expect("the informer runs");
        let count = batch.len();
        for notification in batch {
            self.replay(notification);
        }
        Some(count)
    }

    pub(crate) fn replay(&mut self, notification: Notification) {
        let key = notification.key().clone();
        let known_uid = self.view.get(&key).map(Object::uid);
        match notification {
            Notification::Added { object, .. } => {
                assert_eq!(known_uid, None, "added twice: {object:?}");
                self.view.insert(key, object);
            }
            Notification::Updated { old, new } => {
                assert_eq!(self.view.get(&key), Some(&old), "the old state is the last one delivered");
                assert_eq!(known_uid, Some(new.uid()));
                self.view.insert(key, new);
            }
            Notification::Deleted { last, .. } => {
                assert_eq!(known_uid, Some(last.uid()), "a deletion of an object that was never added");
                self.view.remove(&key);
            }
        }
    }
}
