use crate::{Object, ObjectKey};

/// What a subscriber of an informer is told about one object (B32).
#[derive(Clone, Debug)]
pub enum Notification {
    /// The object is new to this subscriber.
    Added {
        /// The object as it is now.
        object: Object,
        /// Whether it was there when the subscription began: already cached, or in the informer's first list.
        initial: bool,
    },
    /// The object changed; with equal resource versions it is a resync.
    Updated {
        /// What the subscriber knew before.
        old: Object,
        /// The object as it is now.
        new: Object,
    },
    /// The object is gone.
    Deleted {
        /// Its last known state.
        last: Object,
        /// Whether the deletion itself was missed, so that `last` may be older than the object's end (client-go's
        /// `DeletedFinalStateUnknown`).
        final_state_unknown: bool,
    },
}

impl Notification {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }

    /// The newest state that the notification carries.
    #[must_use]
    pub fn object(&self) -> &Object {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// Whether nothing changed: an update between equal resource versions.
    #[must_use]
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Updated { old, new } if old.resource_version() == new.resource_version())
    }
}
