use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::Stored;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    /// The `type` of a watch event.
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
    pub object: Arc<Stored>,
    /// The state before the change.
    pub previous: Option<Arc<Stored>>,
    /// The event as the first endpoint that needed it sends it, and that endpoint's identity.
    frame: OnceLock<(usize, Bytes)>,
}

impl Event {
    pub(super) fn new(kind: EventKind, object: Arc<Stored>, previous: Option<Arc<Stored>>) -> Self {
        Self { kind, object, previous, frame: OnceLock::new() }
    }

    /// The revision of the change.
    pub(crate) fn revision(&self) -> u64 {
        self.object.revision
    }

    /// The bytes that are sent for the event. All watchers of one endpoint share one copy; other endpoints of the
    /// same table (other versions of a custom resource) make their own.
    pub(crate) fn frame(&self, endpoint: usize, build: impl Fn() -> Bytes) -> Bytes {
        let (owner, bytes) = self.frame.get_or_init(|| (endpoint, build()));
        if *owner == endpoint { bytes.clone() } else { build() }
    }

    /// About how many bytes the history keeps for the event.
    pub(super) fn weight(&self) -> usize {
        // The object's bytes and, once somebody watches, the frame's.
        2 * self.object.body().len() + 256
    }
}
