//! What happens in the cache, and what a subscriber is told of it.

use pilothouse_model::{Notification, Object, ResourceVersion};

use crate::key::Restriction;

/// A change of the store, before it is restricted to what a subscriber sees.
pub(super) enum Change<'a> {
    Added {
        object: &'a Object,
        initial: bool,
    },
    Updated {
        old: &'a Object,
        new: &'a Object,
    },
    /// `stored` is what the cache had, `last` what the server sent with the deletion.
    Deleted {
        stored: &'a Object,
        last: &'a Object,
        final_state_unknown: bool,
    },
}

/// What a list says of objects that were known.
pub(super) struct ListDifference<'a> {
    /// Those that are not in it, by key.
    pub(super) removed: Vec<Object>,
    /// Those that are in it, in its order, each with what was known of it.
    pub(super) present: Vec<(Option<Object>, &'a Object)>,
}

impl ListDifference<'_> {
    /// Tombstones first, then the items (B14, B32).
    pub(super) fn changes(&self, initial: bool) -> impl Iterator<Item = Change<'_>> {
        let removed = self.removed.iter();
        let removed = removed.map(|last| Change::Deleted { stored: last, last, final_state_unknown: true });
        let present = self.present.iter();
        removed.chain(present.flat_map(move |(old, new)| transition(old.as_ref(), new, initial)))
    }
}

impl Change<'_> {
    /// What a subscriber is told: an object that leaves its restriction is deleted for it, one that enters is added (B30).
    pub(super) fn notification_for(&self, restriction: Option<&Restriction>) -> Option<Notification> {
        // What looking unpacks is not to wait in a backlog.
        let sees =
            |object: &Object| restriction.is_none_or(|restriction| restriction.matches(&object.closed()));
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

/// What an object's new state means after the old one: another UID is another object (B32).
pub(super) fn transition<'a>(
    old: Option<&'a Object>,
    new: &'a Object,
    initial: bool,
) -> impl Iterator<Item = Change<'a>> {
    let (first, second) = match old {
        None => (Change::Added { object: new, initial }, None),
        Some(old) if same_uid(old, new) => (Change::Updated { old, new }, None),
        Some(old) => (
            Change::Deleted { stored: old, last: old, final_state_unknown: true },
            Some(Change::Added { object: new, initial: false }),
        ),
    };
    std::iter::once(first).chain(second)
}

/// Whether both are the same object; one without a UID passes for any of its name.
pub(super) fn same_uid(left: &Object, right: &Object) -> bool {
    left.uid() == right.uid() || left.uid().is_empty() || right.uid().is_empty()
}

/// Whether an event tells what the cache is past already: the same object at an earlier version, where versions can be
/// compared.
pub(super) fn is_stale(event: &Object, stored: &Object) -> bool {
    let order = ResourceVersion::compare_text(event.resource_version(), stored.resource_version());
    order == Some(std::cmp::Ordering::Less) && event.uid() == stored.uid()
}

#[cfg(test)]
mod tests {
    use pilothouse_model::{LabelSelector, PackedObject};

    use super::*;
    use crate::options::Compression;
    use crate::scripted_server::{pod, pods_key};
    use crate::store::Store;

    #[test]
    fn what_waits_for_a_narrowed_subscriber_is_packed() {
        let store = Store::compressed(Compression { training_bytes: 1 });
        let mut objects: Vec<_> = (1..4).map(|i| pod("a", i).app(&"web".repeat(20)).object()).collect();
        store.pack(&mut objects);
        let object = objects.pop().expect("three");
        assert!(PackedObject::of(&object).is_some());
        let before = object.memory_size();
        let wanted = LabelSelector::parse(&format!("app={}", "web".repeat(20))).expect("labels");
        let restriction = pods_key().restriction_for(&pods_key().with_labels(wanted));
        let told = Change::Added { object: &object, initial: true }.notification_for(restriction.as_ref());
        let told = told.expect("it has the label");
        assert_eq!((told.object().memory_size(), object.memory_size()), (before, before));
        assert!(told.object().json().contains("webweb") && told.object().memory_size() > before);
    }
}
