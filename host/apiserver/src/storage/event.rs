//! The events of a table's history.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::StoredObject;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    /// Returns the `type` of a watch event.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change in a table's history.
#[derive(Debug)]
pub(crate) struct Event {
    pub kind: EventKind,
    /// The state after the change; for a deletion, the last state, at the revision of the deletion.
    pub object: Arc<StoredObject>,
    /// The state before the change.
    pub previous: Option<Arc<StoredObject>>,
    /// The serialized watch event of the first endpoint that sent it, and that endpoint's ID.
    frame: OnceLock<(usize, Bytes)>,
}

impl Event {
    pub(crate) fn new(
        kind: EventKind,
        object: Arc<StoredObject>,
        previous: Option<Arc<StoredObject>>,
    ) -> Self {
        Self { kind, object, previous, frame: OnceLock::new() }
    }

    /// Returns the revision of the change.
    pub(crate) fn revision(&self) -> u64 {
        self.object.revision
    }

    /// Returns the serialized watch event. All watches of one endpoint share one copy; other endpoints of the same table
    /// (other versions of a custom resource) serialize the event again.
    pub(crate) fn frame(&self, endpoint: usize, build: impl Fn() -> Bytes) -> Bytes {
        let (owner, bytes) = self.frame.get_or_init(|| (endpoint, build()));
        if *owner == endpoint { bytes.clone() } else { build() }
    }

    /// Returns the approximate memory of the event in bytes.
    pub(super) fn size(&self) -> usize {
        // The bytes of the object and, once a watch sent it, of the serialized event.
        2 * self.object.body().len() + 256
    }
}
