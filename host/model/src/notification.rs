//! [`Notification`]: a change of one object, as a subscriber of an informer receives it.

use crate::{Object, ObjectKey};

/// A change of one object that a subscriber of an informer receives, like the calls of client-go's `ResourceEventHandler`.
#[derive(Clone, Debug)]
pub enum Notification {
    /// The object is new to this subscriber.
    Added {
        /// The object as it is now.
        object: Object,
        /// Whether the object existed when the subscription began: it was cached, or it was in the informer's first list.
        initial: bool,
    },
    /// The object changed. Equal resource versions mean a resync.
    Updated {
        /// The version that the subscriber received before.
        old: Object,
        /// The object as it is now.
        new: Object,
    },
    /// The object was deleted, or no longer matches the subscription.
    Deleted {
        /// The last known version.
        last: Object,
        /// Whether the watch missed the deletion, so that `last` may not be the final version (see [`Notification::tombstone`]).
        final_state_unknown: bool,
    },
}

impl Notification {
    /// Creates the notification of a deletion that the watch missed, with the last known version (a tombstone, client-go's
    /// `DeletedFinalStateUnknown`).
    #[must_use]
    pub fn tombstone(last: Object) -> Self {
        Self::Deleted { last, final_state_unknown: true }
    }

    /// Returns the object's key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }

    /// Returns the newest version in the notification.
    #[must_use]
    pub fn object(&self) -> &Object {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// Returns whether this is a resync: an update with equal resource versions.
    #[must_use]
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Updated { old, new } if old.resource_version() == new.resource_version())
    }
}
