//! A plugin's own writes, as its own reads see them until the watches bring them (invariant 6).
//!
//! There is one overlay for each resource that the plugin watches, whatever its watches and versions: what one version
//! wrote the next one sees. An entry goes when the cache of every watch that covers it has caught up. What a read sees
//! of it is decided for that watch's cache alone, and never takes an entry away.
//!
//! Writes are told from cached states by their resource versions where those are decimal. Where they are not, a write
//! stands in until the watch tells of that very version or of the end of that UID, or until a list that began after it.
//! A deletion hides its UID, which never comes back; how long that has to be remembered is [`FORGET`].

mod entry;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockUpgradableReadGuard};
use pilothouse_model::{Notification, ObjectKey, ResourceType};
use pilothouse_plugin::{HostMemory, HostMemoryKind};
use tokio::time::Instant;

use crate::cache::views::Views;
use crate::client::Written;

pub(crate) use entry::{Entry, Look, OwnWrite, Seen};

/// How long a write is remembered of which nothing tells that the cache is past it, while the cache shows nothing older.
/// As long as a server lets a watch go on: whatever it had to tell has come by then.
const FORGET: Duration = Duration::from_mins(10);

/// The cache of one watch, as the overlay needs to see it.
pub(crate) trait Cache: Send + Sync {
    /// What the cache knows of the key; `None` where the watch does not cover its namespace. The version is read before
    /// the object, so that the object is at least that new.
    fn look(&self, key: &ObjectKey) -> Option<Look>;

    /// Whether objects can enter and leave the watch while they live.
    fn is_selective(&self) -> bool;
}

/// A plugin's overlays. They belong to its name: they outlive its versions.
#[derive(Clone, Default)]
pub(crate) struct PluginWrites {
    /// Boxed, because a map's node has room for eleven, and most plugins have one or two.
    by_resource: Arc<Mutex<BTreeMap<Box<ResourceType>, Arc<OwnWrites>>>>,
    /// Of the version that runs.
    views: Arc<Mutex<Weak<Views>>>,
    memory: HostMemory,
}

/// The writes to the objects of one resource.
#[derive(Default)]
pub(crate) struct OwnWrites {
    /// How many entries there are. None is the usual case: then reads and events take no lock.
    count: AtomicUsize,
    entries: RwLock<BTreeMap<ObjectKey, Entry>>,
    caches: Mutex<Vec<Weak<dyn Cache>>>,
    /// What the entries are charged to. They are never refused, because the writes have happened: further ones are, before they are
    /// sent.
    memory: HostMemory,
}

impl PluginWrites {
    /// Overlays that are charged to this account.
    pub(crate) fn new(memory: HostMemory) -> Self {
        Self { memory, ..Self::default() }
    }

    /// The overlay of a resource.
    pub(crate) fn of(&self, resource: &ResourceType) -> Arc<OwnWrites> {
        let new = || Arc::new(OwnWrites::new(self.memory.clone()));
        Arc::clone(self.by_resource.lock().entry(Box::new(resource.clone())).or_insert_with(new))
    }

    /// The plugin's account.
    pub(crate) fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// Forgets all of a plugin that was removed.
    pub(crate) fn forget(&self) {
        let forgotten = std::mem::take(&mut *self.by_resource.lock());
        forgotten.values().for_each(|writes| writes.clear());
    }

    /// Remembers a write, where a watch of the plugin covers its object; `before` is the [`uid`](Self::uid) before it was
    /// asked for. A deletion of which nobody told what it deleted hides nothing.
    pub(crate) fn record(&self, written: &Written, before: &str) {
        let Some(writes) = self.known(written.resource()) else { return };
        let deleted = |uid: &str| OwnWrite::Deleted { uid: uid.to_owned(), before: before.to_owned() };
        let write = match written {
            Written::Object(_, object) => OwnWrite::Object(object.clone()),
            Written::Ended(_, object) => deleted(object.uid()),
            Written::Answer(..) => return,
            Written::Deleted(_, _, uid) if uid.is_empty() => return,
            Written::Deleted(_, _, uid) => deleted(uid),
        };
        writes.record(written.key(), write);
    }

    /// Whether a read of the plugin can see the object.
    pub(crate) fn covers(&self, resource: &ResourceType, key: &ObjectKey) -> bool {
        let is_covered =
            |writes: Arc<OwnWrites>| writes.caches().iter().any(|cache| cache.look(key).is_some());
        self.known(resource).is_some_and(is_covered)
    }

    /// The UID of the newest object of that name that the plugin knows of, "" without one.
    pub(crate) fn uid(&self, resource: &ResourceType, key: &ObjectKey) -> String {
        let Some(writes) = self.known(resource) else { return String::new() };
        let written = writes.get(key).and_then(|entry| entry.object().cloned());
        let caches = writes.caches();
        let cached = caches.iter().filter_map(|cache| cache.look(key)?.object);
        entry::newest(written.into_iter().chain(cached))
            .map(|object| object.uid().to_owned())
            .unwrap_or_default()
    }

    /// From now on these are what the plugin's guests read.
    pub(crate) fn serve(&self, views: &Arc<Views>) {
        *self.views.lock() = Arc::downgrade(views);
    }

    /// What the plugin's guests read; `None` when it does not run.
    pub(crate) fn views(&self) -> Option<Arc<Views>> {
        self.views.lock().upgrade()
    }

    fn known(&self, resource: &ResourceType) -> Option<Arc<OwnWrites>> {
        self.by_resource.lock().get(resource).cloned()
    }
}

impl OwnWrites {
    /// An overlay without writes, whose writes are charged to this account.
    fn new(memory: HostMemory) -> Self {
        Self { count: AtomicUsize::new(0), entries: RwLock::default(), caches: Mutex::default(), memory }
    }

    /// From now on an entry also stays until this cache is past it. A cache that is dropped counts no more.
    pub(crate) fn serve(&self, cache: Weak<dyn Cache>) {
        let mut caches = self.caches.lock();
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(cache);
    }

    /// Whether there is none: then reads go straight to the cache.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Remembers a write. Of two writes to one object the later counts, whichever answer came first.
    pub(crate) fn record(&self, key: &ObjectKey, write: OwnWrite) {
        let caches = self.caches();
        {
            let mut entries = self.entries.write();
            let looks = caches.iter().filter_map(|cache| cache.look(key));
            let before = entries.remove(key);
            if let Some(before) = &before {
                self.memory.release(HostMemoryKind::OwnWrites, bytes(key, before));
            }
            if let Some(entry) = Entry::after(before, write, looks, Instant::now()) {
                self.memory.add(HostMemoryKind::OwnWrites, bytes(key, &entry));
                entries.insert(key.clone(), entry);
            }
            self.count.store(entries.len(), Ordering::SeqCst);
        }
        // The watch may have been faster than the answer.
        self.forget(&caches, |entries| entries.get_key_value(key).into_iter().collect());
    }

    /// What was written to the key. To be read before the cache is: an entry that is gone by then is in the cache.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Entry> {
        self.entries.read().get(key).cloned()
    }

    /// All that was written to the keys that are wanted, by key. As [`get`](Self::get), to be read before the cache is.
    pub(crate) fn entries(&self, wanted: impl Fn(&ObjectKey) -> bool) -> Vec<(ObjectKey, Entry)> {
        let entries = self.entries.read();
        let wanted = entries.iter().filter(|(key, _)| wanted(key));
        wanted.map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// Takes note of what a watch told, and forgets of those objects what every cache is past: says which keys those
    /// were. It costs what the batch's objects cost, however many writes are remembered of others.
    pub(crate) fn hear(&self, cache: &dyn Cache, batch: &[Notification]) -> Vec<ObjectKey> {
        if self.is_empty() {
            return Vec::new();
        }
        {
            let mut entries = self.entries.write();
            for notification in batch {
                if let Some(entry) = entries.get_mut(notification.key()) {
                    // Only of use where versions have no order.
                    entry.hear(address(cache), cache.is_selective(), notification);
                }
            }
        }
        self.forget(&self.caches(), |entries| {
            batch.iter().filter_map(|notification| entries.get_key_value(notification.key())).collect()
        })
    }

    /// Forgets what every cache is past, also what no watch tells of, and says which keys those were. It looks at all
    /// writes: for now and then.
    pub(crate) fn prune(&self) -> Vec<ObjectKey> {
        if self.is_empty() {
            return Vec::new();
        }
        self.forget(&self.caches(), |entries| entries.iter().collect())
    }

    fn forget(
        &self,
        caches: &[Arc<dyn Cache>],
        candidates: impl Fn(&BTreeMap<ObjectKey, Entry>) -> Vec<(&ObjectKey, &Entry)>,
    ) -> Vec<ObjectKey> {
        let now = Instant::now();
        let entries = self.entries.upgradable_read();
        let is_past = |key: &ObjectKey, entry: &Entry| {
            caches.iter().all(|cache| {
                let is_past = |look| entry.is_past(&look, address(&**cache), cache.is_selective(), now);
                cache.look(key).is_none_or(is_past)
            })
        };
        let past = candidates(&entries).into_iter().filter(|(key, entry)| is_past(key, entry));
        let past: Vec<ObjectKey> = past.map(|(key, _)| key.clone()).collect();
        if !past.is_empty() {
            let mut entries = RwLockUpgradableReadGuard::upgrade(entries);
            for key in &past {
                if let Some(entry) = entries.remove(key) {
                    self.memory.release(HostMemoryKind::OwnWrites, bytes(key, &entry));
                }
            }
            self.count.store(entries.len(), Ordering::SeqCst);
        }
        past
    }

    fn caches(&self) -> Vec<Arc<dyn Cache>> {
        self.caches.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn clear(&self) {
        let mut entries = self.entries.write();
        for (key, entry) in std::mem::take(&mut *entries) {
            self.memory.release(HostMemoryKind::OwnWrites, bytes(&key, &entry));
        }
        self.count.store(0, Ordering::SeqCst);
    }
}

impl Drop for OwnWrites {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What an entry takes, the same for as long as it is there.
fn bytes(key: &ObjectKey, entry: &Entry) -> usize {
    size_of::<(ObjectKey, Entry)>() + key.as_str().len() + entry.memory_size()
}

/// Which cache it is.
fn address(cache: &dyn Cache) -> usize {
    std::ptr::from_ref(cache).cast::<()>().addr()
}
