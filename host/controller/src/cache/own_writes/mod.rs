//! A plugin's own writes, laid over its cache until the watches deliver them, so that a plugin reads what it wrote.
//!
//! There is one overlay for each resource that the plugin watches. It is shared by all watches and versions: a version sees what the
//! previous one wrote. An entry is removed once the cache of every watch that covers it has caught up. What a read sees depends on the state
//! of that watch's cache alone; a read never removes an entry.
//!
//! Writes and cached states are ordered by their resource versions where those are decimal numbers. Otherwise, a read returns the write
//! until the watch has delivered that version, the deletion of that UID, or a list that began after the write. A deletion hides its UID,
//! which never comes back; it is remembered for at most [`RETENTION`].

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

use crate::cache::delivery_filter::{DeliveryFilter, DeliveryHold};
use crate::cache::index_account::IndexAccount;
use crate::cache::views::Views;
use crate::client::WriteOutcome;

pub(crate) use entry::{CacheState, Entry, OwnWrite, ReadResult};

/// How long a write is remembered without proof that the cache has caught up, if the cache shows nothing older. The same as the longest
/// duration of a watch request: every event that the watch had to deliver has arrived by then.
const RETENTION: Duration = Duration::from_mins(10);

/// The cache of one watch, as the overlay sees it.
pub(crate) trait CacheStateReader: Send + Sync {
    /// Returns the cache's state of a key; `None` if the watch does not cover its namespace, or selects by a name
    /// that is not the key's. The version must be read before the object, so that the object is at least as new.
    fn state(&self, key: &ObjectKey) -> Option<CacheState>;

    /// Whether the watch has selectors, so that objects can enter and leave it during their lifetime.
    fn is_selective(&self) -> bool;
}

/// The overlays of a plugin, by resource. They belong to the plugin's name, and outlive its versions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct PluginWrites {
    /// Boxed, because a node of the map has room for eleven keys, and most plugins have one or two.
    by_resource: Arc<Mutex<BTreeMap<Box<ResourceType>, Arc<OwnWrites>>>>,
    /// The views of the running version; for the writes of a canary, those of the canary.
    views: Arc<Mutex<Weak<Views>>>,
    /// For the writes of a canary, the views of the version beside it, which resolve its last writes once it has ended.
    other_views: Option<Arc<Mutex<Weak<Views>>>>,
    memory: HostMemory,
    /// The same account, for the indexes that informers keep.
    index_account: Arc<IndexAccount>,
}

/// The overlay of one resource: the last write to each object.
#[derive(Default)]
pub(crate) struct OwnWrites {
    /// The number of entries. Usually 0; then reads and events take no lock.
    count: AtomicUsize,
    entries: RwLock<BTreeMap<ObjectKey, Entry>>,
    caches: Mutex<Vec<Weak<dyn CacheStateReader>>>,
    /// The watches' subscriptions. They are held while there are entries, because every change may confirm one.
    filters: Mutex<Filters>,
    /// The account to which the entries are charged. An entry is never refused, because its write has happened; further writes are refused
    /// before they are sent.
    memory: HostMemory,
}

#[derive(Default)]
struct Filters {
    filters: Vec<Arc<DeliveryFilter>>,
    holds: Vec<DeliveryHold>,
}

impl PluginWrites {
    /// Creates overlays that are charged to this account.
    pub(crate) fn new(memory: HostMemory) -> Self {
        let index_account = Arc::new(IndexAccount::new(memory.clone()));
        Self { memory, index_account, ..Self::default() }
    }

    /// Returns the overlay of a resource, and creates it on first use.
    pub(crate) fn for_resource(&self, resource: &ResourceType) -> Arc<OwnWrites> {
        let new = || Arc::new(OwnWrites::new(self.memory.clone()));
        Arc::clone(self.by_resource.lock().entry(Box::new(resource.clone())).or_insert_with(new))
    }

    /// The plugin's host memory.
    pub(crate) fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// The account to which the plugin's indexes are charged that informers keep.
    pub(crate) fn index_account(&self) -> Arc<IndexAccount> {
        Arc::clone(&self.index_account)
    }

    /// Forgets all writes, because the plugin was removed.
    pub(crate) fn clear(&self) {
        let overlays = std::mem::take(&mut *self.by_resource.lock());
        overlays.values().for_each(|writes| writes.clear());
    }

    /// Records a write if a watch of the plugin covers its object. `uid_before` is the result of [`uid`](Self::uid) before the request was
    /// sent. A deletion whose response does not contain a UID hides nothing.
    pub(crate) fn record(&self, written: &WriteOutcome, uid_before: &str) {
        let Some(writes) = self.existing(written.resource()) else { return };
        let deleted =
            |uid: &str| OwnWrite::Deleted { uid: uid.to_owned(), uid_before: uid_before.to_owned() };
        let write = match written {
            WriteOutcome::Object(_, object) => OwnWrite::Object(object.clone()),
            WriteOutcome::Finalized(_, object) => deleted(object.uid()),
            WriteOutcome::Response(..) => return,
            WriteOutcome::Deleted(_, _, uid) if uid.is_empty() => return,
            WriteOutcome::Deleted(_, _, uid) => deleted(uid),
        };
        writes.record(written.key(), write);
    }

    /// Whether a watch of the plugin covers the object.
    pub(crate) fn covers(&self, resource: &ResourceType, key: &ObjectKey) -> bool {
        let is_covered =
            |writes: Arc<OwnWrites>| writes.caches().iter().any(|cache| cache.state(key).is_some());
        self.existing(resource).is_some_and(is_covered)
    }

    /// Returns the UID of the newest object with this key that the plugin has written or cached; "" without one.
    pub(crate) fn uid(&self, resource: &ResourceType, key: &ObjectKey) -> String {
        let Some(writes) = self.existing(resource) else { return String::new() };
        let written = writes.get(key).and_then(|entry| entry.object().cloned());
        let caches = writes.caches();
        let cached = caches.iter().filter_map(|cache| cache.state(key)?.object);
        entry::newest(written.into_iter().chain(cached))
            .map(|object| object.uid().to_owned())
            .unwrap_or_default()
    }

    /// Returns the same overlays for the writes of a canary, which have views of their own. The indexes of the version beside it receive these
    /// writes from the watches, so neither version waits for the other's index functions.
    pub(crate) fn for_canary(&self) -> Self {
        Self { views: Arc::default(), other_views: Some(Arc::clone(&self.views)), ..self.clone() }
    }

    /// Sets the views of the running version, or of the canary.
    pub(crate) fn set_views(&self, views: &Arc<Views>) {
        *self.views.lock() = Arc::downgrade(views);
    }

    /// Returns the views of the running version, or of the canary while that runs; `None` if the plugin does not run.
    pub(crate) fn views(&self) -> Option<Arc<Views>> {
        let own = self.views.lock().upgrade();
        own.or_else(|| self.other_views.as_ref()?.lock().upgrade())
    }

    fn existing(&self, resource: &ResourceType) -> Option<Arc<OwnWrites>> {
        self.by_resource.lock().get(resource).cloned()
    }
}

impl OwnWrites {
    /// Creates an empty overlay that is charged to this account.
    fn new(memory: HostMemory) -> Self {
        Self {
            count: AtomicUsize::new(0),
            entries: RwLock::default(),
            caches: Mutex::default(),
            filters: Mutex::default(),
            memory,
        }
    }

    /// Adds a cache: entries are kept until it has caught up, too, or was dropped.
    pub(crate) fn add_cache(&self, cache: Weak<dyn CacheStateReader>) {
        let mut caches = self.caches.lock();
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(cache);
    }

    /// Adds a watch's subscription, whose changes may confirm entries.
    pub(crate) fn add_filter(&self, filter: &Arc<DeliveryFilter>) {
        let mut filters = self.filters.lock();
        filters.filters.retain(|known| !known.has_ended() && !Arc::ptr_eq(known, filter));
        filters.filters.push(Arc::clone(filter));
        filters.update(self.is_empty());
    }

    /// Whether there are no entries, so that a read needs the cache only.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Records a write. The later of two writes to an object wins, whichever response came first.
    pub(crate) fn record(&self, key: &ObjectKey, write: OwnWrite) {
        let caches = self.caches();
        {
            let mut entries = self.entries.write();
            let states = caches.iter().filter_map(|cache| cache.state(key));
            let previous = entries.remove(key);
            if let Some(previous) = &previous {
                self.memory.release(HostMemoryKind::OwnWrites, bytes(key, previous));
            }
            if let Some(entry) = Entry::merge(previous, write, states, Instant::now()) {
                self.memory.add(HostMemoryKind::OwnWrites, bytes(key, &entry));
                entries.insert(key.clone(), entry);
            }
            self.count.store(entries.len(), Ordering::SeqCst);
        }
        // Changes that are refused before this are in the cache already.
        self.update_filters();
        // The watch may have delivered the write before its response came.
        self.forget(&caches, |entries| entries.get_key_value(key).into_iter().collect());
    }

    /// Returns the entry of a key. Must be read before the cache, so that an entry that was just removed is in the cache.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Entry> {
        self.entries.read().get(key).cloned()
    }

    /// Returns the entries whose keys pass the filter, in order. Must be read before the cache, like [`get`](Self::get).
    pub(crate) fn entries(&self, filter: impl Fn(&ObjectKey) -> bool) -> Vec<(ObjectKey, Entry)> {
        let entries = self.entries.read();
        let matching = entries.iter().filter(|(key, _)| filter(key));
        matching.map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// Applies the notifications of a cache's watch. Among their objects, removes the entries with which every cache has caught up, and
    /// returns their keys. The cost depends on the size of the batch, not on the number of entries.
    pub(crate) fn confirm(&self, cache: &dyn CacheStateReader, batch: &[Notification]) -> Vec<ObjectKey> {
        if self.is_empty() {
            return Vec::new();
        }
        {
            let mut entries = self.entries.write();
            for notification in batch {
                if let Some(entry) = entries.get_mut(notification.key()) {
                    // Needed only if resource versions have no order.
                    entry.confirm(cache_id(cache), cache.is_selective(), notification);
                }
            }
        }
        self.forget(&self.caches(), |entries| {
            batch.iter().filter_map(|notification| entries.get_key_value(notification.key())).collect()
        })
    }

    /// Removes all entries with which every cache has caught up, and returns their keys. Also finds entries that no notification mentions,
    /// but checks every entry, so it should be called only now and then.
    pub(crate) fn prune(&self) -> Vec<ObjectKey> {
        if self.is_empty() {
            return Vec::new();
        }
        self.forget(&self.caches(), |entries| entries.iter().collect())
    }

    fn forget(
        &self,
        caches: &[Arc<dyn CacheStateReader>],
        candidates: impl Fn(&BTreeMap<ObjectKey, Entry>) -> Vec<(&ObjectKey, &Entry)>,
    ) -> Vec<ObjectKey> {
        let now = Instant::now();
        let entries = self.entries.upgradable_read();
        let is_obsolete = |key: &ObjectKey, entry: &Entry| {
            caches.iter().all(|cache| {
                let has_caught_up =
                    |state| entry.is_in_cache(&state, cache_id(&**cache), cache.is_selective(), now);
                cache.state(key).is_none_or(has_caught_up)
            })
        };
        let obsolete = candidates(&entries).into_iter().filter(|(key, entry)| is_obsolete(key, entry));
        let obsolete: Vec<ObjectKey> = obsolete.map(|(key, _)| key.clone()).collect();
        if !obsolete.is_empty() {
            let mut entries = RwLockUpgradableReadGuard::upgrade(entries);
            for key in &obsolete {
                if let Some(entry) = entries.remove(key) {
                    self.memory.release(HostMemoryKind::OwnWrites, bytes(key, &entry));
                }
            }
            self.count.store(entries.len(), Ordering::SeqCst);
        }
        if !obsolete.is_empty() {
            self.update_filters();
        }
        obsolete
    }

    /// Holds the subscriptions if there are entries, and releases them otherwise. To be called after each change of the entries, without
    /// their lock.
    fn update_filters(&self) {
        let mut filters = self.filters.lock();
        // Read with the filters locked, so that the last caller sees the last state.
        let is_empty = self.is_empty();
        if is_empty != filters.holds.is_empty() {
            filters.update(is_empty);
        }
    }

    fn caches(&self) -> Vec<Arc<dyn CacheStateReader>> {
        self.caches.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn clear(&self) {
        let mut entries = self.entries.write();
        for (key, entry) in std::mem::take(&mut *entries) {
            self.memory.release(HostMemoryKind::OwnWrites, bytes(&key, &entry));
        }
        self.count.store(0, Ordering::SeqCst);
        drop(entries);
        self.update_filters();
    }
}

impl Filters {
    fn update(&mut self, is_empty: bool) {
        let held = self.filters.iter().filter(|_| !is_empty);
        self.holds = held.map(DeliveryFilter::hold).collect();
    }
}

impl Drop for OwnWrites {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The bytes that an entry uses. Does not change while the entry exists, so that the same amount is released.
fn bytes(key: &ObjectKey, entry: &Entry) -> usize {
    size_of::<(ObjectKey, Entry)>() + key.as_str().len() + entry.memory_size()
}

/// Identifies a cache by its address.
fn cache_id(cache: &dyn CacheStateReader) -> usize {
    std::ptr::from_ref(cache).cast::<()>().addr()
}
