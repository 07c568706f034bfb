//! Changes of the cache, and the notifications that they become for a subscriber.

use pilothouse_model::{Notification, Object, ResourceVersion};

use crate::key::Restriction;

/// A change of the store, before a subscriber's restriction is applied.
pub(super) enum Change<'a> {
    Added {
        object: &'a Object,
        initial: bool,
    },
    Updated {
        old: &'a Object,
        new: &'a Object,
    },
    /// `stored` is the object that was cached, `last` the final state that the server sent with the deletion.
    Deleted {
        stored: &'a Object,
        last: &'a Object,
        final_state_unknown: bool,
    },
}

/// The difference between the cached objects and a new list.
pub(super) struct ListDifference<'a> {
    /// Cached objects that are not in the list, in key order.
    pub(super) removed: Vec<Object>,
    /// The list's objects in list order, each with its cached state.
    pub(super) present: Vec<(Option<Object>, &'a Object)>,
}

impl ListDifference<'_> {
    /// Returns the changes: deletions with unknown final state first, then the items in list order.
    pub(super) fn changes(&self, initial: bool) -> impl Iterator<Item = Change<'_>> {
        let removed = self.removed.iter().map(Change::tombstone);
        let present = self.present.iter();
        removed.chain(present.flat_map(move |(old, new)| transition(old.as_ref(), new, initial)))
    }
}

impl<'a> Change<'a> {
    /// A deletion that the watch missed.
    fn tombstone(stored: &'a Object) -> Self {
        Self::Deleted { stored, last: stored, final_state_unknown: true }
    }

    /// Returns the notification for a subscriber with this restriction, or `None` if it does not see the object. An object that
    /// stops matching becomes a deletion, one that starts matching an addition.
    pub(super) fn notification_for(&self, restriction: Option<&Restriction>) -> Option<Notification> {
        // Match against a separate view: text that is decompressed for matching must not stay in memory with the backlog.
        let sees =
            |object: &Object| restriction.is_none_or(|restriction| restriction.matches(&object.fresh_view()));
        match *self {
            Self::Added { object, initial } => {
                sees(object).then(|| Notification::Added { object: object.clone(), initial })
            }
            Self::Updated { old, new } => match (sees(old), sees(new)) {
                (true, true) => Some(Notification::Updated { old: old.clone(), new: new.clone() }),
                (true, false) => {
                    Some(Notification::Deleted { last: old.clone(), final_state_unknown: false })
                }
                (false, true) => Some(Notification::Added { object: new.clone(), initial: false }),
                (false, false) => None,
            },
            Self::Deleted { stored, last, final_state_unknown } => {
                sees(stored).then(|| Notification::Deleted { last: last.clone(), final_state_unknown })
            }
        }
    }
}

/// Returns the changes from an object's old state to its new state. A different UID is a different object: a deletion, then
/// an addition.
pub(super) fn transition<'a>(
    old: Option<&'a Object>,
    new: &'a Object,
    initial: bool,
) -> impl Iterator<Item = Change<'a>> {
    let (first, second) = match old {
        None => (Change::Added { object: new, initial }, None),
        Some(old) if same_uid(old, new) => (Change::Updated { old, new }, None),
        Some(old) => (Change::tombstone(old), Some(Change::Added { object: new, initial: false })),
    };
    std::iter::once(first).chain(second)
}

/// Whether both are states of the same object. An object without a UID matches any object of its name.
pub(super) fn same_uid(left: &Object, right: &Object) -> bool {
    left.uid() == right.uid() || left.uid().is_empty() || right.uid().is_empty()
}

/// Whether the cache is already past the event: it has the same object at a later version. `false` if the versions cannot be
/// compared.
pub(super) fn is_stale(event: &Object, stored: &Object) -> bool {
    let order = ResourceVersion::compare_text(event.resource_version(), stored.resource_version());
    order == Some(std::cmp::Ordering::Less) && event.uid() == stored.uid()
}

#[cfg(all(test, feature = "compressed-cache"))]
mod tests {
    use pilothouse_model::{LabelSelector, PackedObject};

    use super::*;
    use crate::options::Compression;
    use crate::scripted_server::{pod, pods_key};
    use crate::store::Store;

    #[test]
    fn pending_notifications_of_a_restricted_subscriber_stay_packed() {
        let store = Store::compressed(Compression { training_bytes: 1 });
        let mut objects: Vec<_> = (1..4).map(|i| pod("a", i).app(&"web".repeat(20)).object()).collect();
        store.pack(&mut objects);
        let object = objects.pop().expect("three");
        assert!(PackedObject::of(&object).is_some());
        let before = object.memory_size();
        let wanted = LabelSelector::parse(&format!("app={}", "web".repeat(20))).expect("labels");
        let restriction = pods_key().restriction_for(&pods_key().with_labels(wanted));
        let notification =
            Change::Added { object: &object, initial: true }.notification_for(restriction.as_ref());
        let notification = notification.expect("it has the label");
        assert_eq!((notification.object().memory_size(), object.memory_size()), (before, before));
        assert!(
            notification.object().json().contains("webweb") && notification.object().memory_size() > before
        );
    }
}
