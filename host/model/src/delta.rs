use crate::{Object, ObjectKey};

/// What a reflector saw happen, on its way through the delta queue (B10).
#[derive(Clone, Debug)]
pub enum Delta {
    /// The watch reported a new object.
    Added(Object),
    /// The watch reported a change.
    Updated(Object),
    /// The object is gone.
    Deleted(Deletion),
    /// A whole list: what is not in it is gone.
    Replaced(Replacement),
    /// A resync: the cached object is to be looked at again, though nothing happened to it.
    Sync(Object),
}

/// How an object's end became known.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The last state that is known.
    pub last: Object,
    /// Whether the deletion itself was missed and only inferred, so that `last` may be stale (a tombstone, client-go's
    /// `DeletedFinalStateUnknown`).
    pub final_state_unknown: bool,
}

/// The state of a whole collection at one resource version.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The objects in list order.
    pub items: Vec<Object>,
    /// The resource version of the list.
    pub resource_version: String,
}

impl Delta {
    /// The object's key; `None` for a replacement, which concerns all of them.
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
    /// A deletion that the server reported.
    #[must_use]
    pub fn observed(last: Object) -> Self {
        Self { last, final_state_unknown: false }
    }

    /// A deletion that was missed.
    #[must_use]
    pub fn tombstone(last: Object) -> Self {
        Self { last, final_state_unknown: true }
    }

    /// Of two deletions in a row of one object, the one that says more: an observed one beats a tombstone, else the newer
    /// (B12). If the newer is that of another object of the name, whose life left no trace in between, the first stays.
    #[must_use]
    pub fn merge(self, newer: Self) -> Self {
        let same = self.last.uid() == newer.last.uid() || newer.last.uid().is_empty();
        let better = !newer.final_state_unknown || self.final_state_unknown;
        if same && better { newer } else { self }
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
    fn an_observed_deletion_beats_a_tombstone_whichever_came_first() {
        let merged = Deletion::observed(pod("1")).merge(Deletion::tombstone(pod("2")));
        assert_eq!((merged.last.resource_version(), merged.final_state_unknown), ("1", false));
        let merged = Deletion::tombstone(pod("1")).merge(Deletion::observed(pod("2")));
        assert_eq!((merged.last.resource_version(), merged.final_state_unknown), ("2", false));
    }

    #[test]
    fn the_deletion_of_another_object_of_the_name_does_not_replace_the_first() {
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
