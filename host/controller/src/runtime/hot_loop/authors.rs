//! Which plugin made which version of an object: the latest writes of all plugins of the host.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_model::Notification;

use crate::client::Written;

/// Writes that are remembered, of all plugins together: the events of a write come within moments of it.
const KEPT: usize = 4096;

/// Shared by all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Authors {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    hasher: RandomState,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    plugins: HashMap<Version, Arc<str>>,
    order: VecDeque<Version>,
}

/// A hash of a UID and a resource version, "" for the end of that UID: two that are mistaken for each other would cost a
/// round in a count.
pub(super) type Version = u64;

impl Authors {
    /// A plugin made this version.
    pub(crate) fn wrote(&self, plugin: &Arc<str>, written: &Written) {
        let version = match written {
            Written::Object(_, object) => self.version(object.uid(), object.resource_version()),
            Written::Ended(_, object) => self.version(object.uid(), ""),
            Written::Deleted(_, _, uid) => self.version(uid, ""),
            // It is never recorded.
            Written::Answer(..) => return,
        };
        let mut log = self.shared.log.lock();
        if log.plugins.insert(version, Arc::clone(plugin)).is_none() {
            log.order.push_back(version);
            if log.order.len() > KEPT
                && let Some(oldest) = log.order.pop_front()
            {
                log.plugins.remove(&oldest);
            }
        }
    }

    /// The version that a notification tells of.
    pub(super) fn told(&self, notification: &Notification) -> Version {
        let object = notification.object();
        match notification {
            Notification::Deleted { .. } => self.version(object.uid(), ""),
            _ => self.version(object.uid(), object.resource_version()),
        }
    }

    /// Who made a version, if it was a plugin of this host and not long ago.
    pub(super) fn of(&self, version: Version) -> Option<Arc<str>> {
        self.shared.log.lock().plugins.get(&version).cloned()
    }

    fn version(&self, uid: &str, version: &str) -> Version {
        self.shared.hasher.hash_one((uid, version))
    }
}
