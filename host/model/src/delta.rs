//! [`Delta`]: a change that a reflector puts into the delta queue.

use crate::{Object, ObjectKey};

/// A change that a reflector has observed, like the `Delta` of client-go's DeltaFIFO.
#[derive(Clone, Debug)]
pub enum Delta {
    /// The watch reported a new object.
    Added(Object),
    /// The watch reported a change.
    Updated(Object),
    /// The object was deleted.
    Deleted(Deletion),
    /// A list replaces the whole collection: objects that are not in it were deleted.
    Replaced(Replacement),
    /// A resync: subscribers receive the cached object again, although it has not changed.
    Sync(Object),
}

/// The deletion of an object.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The last known version.
    pub last: Object,
    /// Whether the watch missed the deletion, so that `last` may not be the final version (a tombstone, client-go's
    /// `DeletedFinalStateUnknown`). Always `false` in a reflector's delta: the missed deletions of a list are found when it is applied.
    pub final_state_unknown: bool,
}

/// A whole collection at one resource version.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The objects in list order.
    pub items: Vec<Object>,
    /// The resource version of the list.
    pub resource_version: String,
}

impl Delta {
    /// Returns the object's key; `None` for a replacement, which affects all objects.
    #[must_use]
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Sync(object) => Some(object.key()),
            Self::Deleted(deletion) => Some(deletion.last.key()),
            Self::Replaced(_) => None,
        }
    }
}

impl Deletion {
    /// Creates a deletion that the server reported.
    #[must_use]
    pub fn observed(last: Object) -> Self {
        Self { last, final_state_unknown: false }
    }

    /// Merges two consecutive deletions under one key into the one with more information: an observed deletion is preferred to a tombstone,
    /// otherwise the newer one is kept.
    ///
    /// If the newer one has another UID, the first is kept: the subscriber never received the object that the newer one is about.
    #[must_use]
    pub fn merge(self, newer: Self) -> Self {
        let is_same_object = self.last.uid() == newer.last.uid() || newer.last.uid().is_empty();
        let is_more_informative = !newer.final_state_unknown || self.final_state_unknown;
        if is_same_object && is_more_informative { newer } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(version: &str) -> Object {
        Object::from_json(format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","namespace":"n","resourceVersion":"{version}"}}}}"#
        ))
        .expect("a pod")
    }

    #[test]
    fn an_observed_deletion_replaces_a_tombstone_in_either_order() {
        let tombstone = |version| Deletion { last: pod(version), final_state_unknown: true };
        let merged = Deletion::observed(pod("1")).merge(tombstone("2"));
        assert_eq!((merged.last.resource_version(), merged.final_state_unknown), ("1", false));
        let merged = tombstone("1").merge(Deletion::observed(pod("2")));
        assert_eq!((merged.last.resource_version(), merged.final_state_unknown), ("2", false));
    }

    #[test]
    fn a_deletion_with_another_uid_does_not_replace_the_first() {
        let other = Object::from_json(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"2","resourceVersion":"9"}}"#,
        );
        let merged = Deletion::observed(pod("1")).merge(Deletion::observed(other.expect("a pod")));
        assert_eq!(merged.last.resource_version(), "1");
    }

    #[test]
    fn only_a_replacement_has_no_key() {
        assert_eq!(Delta::Sync(pod("1")).key().map(ObjectKey::as_str), Some("n/a"));
        assert!(
            Delta::Replaced(Replacement { items: vec![pod("1")], resource_version: "1".into() })
                .key()
                .is_none()
        );
    }
}
