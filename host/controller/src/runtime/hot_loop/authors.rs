//! Which plugin wrote which version of an object: the latest writes of all plugins of the host.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_model::Notification;
use pilothouse_model::hash::{HashMap, HashState};

use crate::client::WriteOutcome;

/// The number of writes that are remembered, of all plugins together. Few suffice, because the event of a write comes soon after it.
const MAX_WRITES: usize = 4096;

/// The authors of the latest writes. Shared by all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Authors {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    hasher: HashState,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    plugins: HashMap<ObjectVersionHash, Arc<str>>,
    order: VecDeque<ObjectVersionHash>,
}

/// A hash of a UID and a resource version, which is "" for the deletion of that UID. A collision miscounts one write.
pub(super) type ObjectVersionHash = u64;

impl Authors {
    /// Records that a plugin wrote this version.
    pub(crate) fn record_write(&self, plugin: &Arc<str>, written: &WriteOutcome) {
        let version = match written {
            WriteOutcome::Object(_, object) => self.version(object.uid(), object.resource_version()),
            WriteOutcome::Finalized(_, object) => self.version(object.uid(), ""),
            WriteOutcome::Deleted(_, _, uid) => self.version(uid, ""),
            // Not the state of an object.
            WriteOutcome::Response(..) => return,
        };
        let mut log = self.shared.log.lock();
        if log.plugins.insert(version, Arc::clone(plugin)).is_none() {
            log.order.push_back(version);
            if log.order.len() > MAX_WRITES
                && let Some(oldest) = log.order.pop_front()
            {
                log.plugins.remove(&oldest);
            }
        }
    }

    /// Returns the version of a notification's object.
    pub(super) fn version_of(&self, notification: &Notification) -> ObjectVersionHash {
        let object = notification.object();
        match notification {
            Notification::Deleted { .. } => self.version(object.uid(), ""),
            _ => self.version(object.uid(), object.resource_version()),
        }
    }

    /// Returns the plugin that wrote a version; `None` if another client did, or if it was too long ago.
    pub(super) fn author_of(&self, version: ObjectVersionHash) -> Option<Arc<str>> {
        self.shared.log.lock().plugins.get(&version).cloned()
    }

    fn version(&self, uid: &str, version: &str) -> ObjectVersionHash {
        self.shared.hasher.hash_one((uid, version))
    }
}
