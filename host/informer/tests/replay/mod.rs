//! A subscriber that replays what it is told, at its own pace, and checks that each notification fits what it knew.

use std::collections::BTreeMap;

use pilothouse_informer::Subscription;
use pilothouse_model::{Notification, Object, ObjectKey};

pub(crate) struct Replayer {
    pub(crate) subscription: Subscription,
    pub(crate) view: BTreeMap<ObjectKey, Object>,
}

impl Replayer {
    pub(crate) fn new(subscription: Subscription) -> Self {
        Self { subscription, view: BTreeMap::new() }
    }

    /// Takes a batch if one waits; says how many notifications it had.
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
        let known = self.view.get(&key).map(Object::uid);
        match notification {
            Notification::Added { object, .. } => {
                assert_eq!(known, None, "added twice: {object:?}");
                self.view.insert(key, object);
            }
            Notification::Updated { old, new } => {
                assert_eq!(self.view.get(&key), Some(&old), "the old state is what was known");
                assert_eq!(known, Some(new.uid()));
                self.view.insert(key, new);
            }
            Notification::Deleted { last, .. } => {
                assert_eq!(known, Some(last.uid()), "no deletion of what was never added");
                self.view.remove(&key);
            }
        }
    }
}
