//! The cache of an informer: objects by key and by index.
//!
//! # Why one `RwLock` with short critical sections
//! The only writer is the informer's task. It prepares each change (index values, or a whole new map for a replaced list)
//! under an upgradable read lock, while readers continue, and upgrades to the write lock only to apply it: one map insertion
//! per event, one pointer swap per relist. A new index is built from a snapshot, without a lock, and then completed. An exception
//! is the one event that trains the dictionary of a compressed store: readers wait while all objects are packed. A persistent map behind an `ArcSwap` would never block readers, but costs several
//! allocations for each event and about twice the memory for each object. With this design an object costs 16 bytes in the map,
//! and one reference to its key in the sorted list of keys, in addition to its own bytes.
//!
//! # Compression
//! A compressed store keeps each object packed separately ([`Store::compressed`]). Readers get views, which are unpacked
//! outside the lock when a field is read that exists only in the JSON text. Index functions get views, too: one that looks
//! only at the namespace unpacks nothing.

mod index_fn;
#[cfg(test)]
mod model_tests;
mod object_map;
mod packing;
mod reader;
mod state;
mod stored_object;
#[cfg(test)]
mod tests;
mod typed;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockUpgradableReadGuard};
use pilothouse_model::{Object, ObjectKey};

use crate::options::Compression;
pub use index_fn::{IndexError, IndexFn, IndexMemory};
pub(crate) use object_map::{ObjectMap, PrefetchPipeline};
use packing::Packer;
pub use reader::{IndexValueCursor, ScanPage, StoreReader};
pub(crate) use reader::{ReaderSource, StoreView};
use state::{IndexId, SnapshotIndex, State};
pub(crate) use stored_object::StoredObject;
pub use typed::ReadError;

/// The scope of index names: each subscriber of a shared informer has its own.
pub(crate) type ScopeId = u64;

/// The scope of the indexes that [`Store::add_index`] adds.
const OWN_SCOPE: ScopeId = 0;

/// An indexed, thread-safe store of objects by key (client-go's `Indexer`). Objects are immutable, so a consumer cannot change
/// the cache.
///
/// ```
/// use pilothouse_informer::{IndexFn, Store};
/// use pilothouse_model::{Object, ObjectKey};
///
/// let store = Store::new();
/// store.add_index("app", IndexFn::label("app")).unwrap();
/// let web = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"a","labels":{"app":"shop"}}}"#;
/// store.update(Object::from_json(web).unwrap());
/// assert!(store.get(&ObjectKey::new("a", "web")).is_some());
/// assert_eq!(store.index_keys("app", "shop").unwrap(), [ObjectKey::new("a", "web")]);
/// ```
#[derive(Default)]
pub struct Store {
    state: RwLock<State>,
    /// Set while the delta queue merges, so that changes are applied out of version order. Only the writer reads it.
    version_frozen: AtomicBool,
    packer: Option<Packer>,
}

impl Store {
    /// Creates an empty store without indexes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty store without indexes that keeps its objects compressed.
    #[must_use]
    pub fn compressed(compression: Compression) -> Self {
        Self { packer: Some(Packer::new(compression)), ..Self::default() }
    }

    /// Inserts or replaces an object and returns the replaced one (client-go's `Add` and `Update`).
    pub fn update(&self, object: Object) -> Option<Object> {
        self.update_unless(object, |_, _| false).ok().flatten()
    }

    /// Like [`update`](Self::update), unless `refuses(new, stored)` returns `true`.
    ///
    /// # Errors
    /// Returns the object if it was refused; the store is unchanged then.
    pub(crate) fn update_unless(
        &self,
        object: Object,
        refuses: impl FnOnce(&Object, &Object) -> bool,
    ) -> Result<Option<Object>, Object> {
        let state = self.state.upgradable_read();
        let old = state.get(object.key()).map(StoredObject::object);
        if old.as_ref().is_some_and(|old| refuses(&object, old)) {
            return Err(object);
        }
        let trained = self.packer.as_ref().is_some_and(|packer| packer.train_from_store(&state));
        let changes = state.index_changes(old.as_ref(), Some(&object));
        let stored = match &self.packer {
            None => StoredObject::new(object),
            Some(packer) => packer.pack(object),
        };
        let mut state = RwLockUpgradableReadGuard::upgrade(state);
        state.apply_index_changes(stored.key(), changes);
        state.insert(stored, old.is_none(), self.advances_version());
        if let Some(packer) = self.packer.as_ref().filter(|_| trained) {
            state.repack(|object| packer.pack(object));
        }
        drop(state);
        Ok(old)
    }

    /// Removes an object and returns it. `resource_version` is that of the deletion, if known.
    pub fn delete(&self, key: &ObjectKey, resource_version: Option<&str>) -> Option<Object> {
        let state = self.state.upgradable_read();
        let old = state.get(key)?.object();
        let changes = state.index_changes(Some(&old), None);
        let mut state = RwLockUpgradableReadGuard::upgrade(state);
        state.apply_index_changes(key, changes);
        state.remove(key, resource_version.filter(|_| self.advances_version()));
        drop(state);
        Some(old)
    }

    /// Replaces the whole content by `items` in one step: a reader sees all of the old state or all of the new state, indexes
    /// included, and never waits while the new state is built. Returns the old objects. If two items have the same key, the
    /// later one wins. Items are stored as they are, so [`pack`](Self::pack) them first.
    pub(crate) fn replace(&self, items: &[Object], resource_version: &str) -> ObjectMap {
        if let Some(packer) = &self.packer {
            packer.end_list();
        }
        let state = self.state.upgradable_read();
        let mut fresh = state.rebuilt(items, resource_version);
        let mut state = RwLockUpgradableReadGuard::upgrade(state);
        fresh.take_accounts(&mut state);
        std::mem::swap(&mut *state, &mut fresh);
        drop(state);
        // The old maps are dropped here, after the lock is released.
        fresh.into_objects()
    }

    /// Replaces the whole content by `items` in one step (client-go's `Replace`). Readers see the old or the new content, never a
    /// mix.
    pub fn replace_all(&self, items: &[Object], resource_version: &str) {
        if self.packer.is_none() {
            drop(self.replace(items, resource_version));
            return;
        }
        let mut items = items.to_vec();
        self.pack(&mut items);
        drop(self.replace(&items, resource_version));
    }

    /// Packs the objects if the store compresses. Call it for each part of a list as it is read, so that the whole list is never
    /// uncompressed in memory.
    pub(crate) fn pack(&self, objects: &mut [Object]) {
        if let Some(packer) = &self.packer {
            packer.pack_listed(objects);
        }
    }

    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.state.read().get(key).map(StoredObject::object)
    }

    /// Returns the object with this key, or `None` if it is compressed. For callers that do without the object rather than decompress it.
    pub(crate) fn get_unless_compressed(&self, key: &ObjectKey) -> Option<Object> {
        self.state.read().get(key).filter(|stored| !stored.is_compressed()).map(StoredObject::object)
    }

    /// Like [`ObjectMap::prefetch`].
    pub(crate) fn prefetch(&self, pipeline: &mut PrefetchPipeline, last: Option<(&str, &str)>) {
        self.state.read().prefetch(pipeline, last);
    }

    /// Whether the store has an object with this key.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.state.read().get(key).is_some()
    }

    /// Whether the store holds this very object (the same allocation), not only an equal one.
    pub(crate) fn contains_exact(&self, object: &Object) -> bool {
        self.state.read().get(object.key()).is_some_and(|stored| stored.is_same(object))
    }

    /// Returns the stored object if it has the same bytes.
    pub(crate) fn get_identical(&self, object: &Object) -> Option<Object> {
        let stored = self.state.read().get(object.key())?.clone();
        // Most objects that differ have different versions, which are compared without unpacking.
        let same = stored.resource_version() == object.resource_version() && stored.object() == *object;
        // A second view, so that the text that the comparison unpacked is not kept.
        same.then(|| stored.object())
    }

    /// Returns all objects in key order.
    #[must_use]
    pub fn list(&self) -> Vec<Object> {
        self.page(None, None, usize::MAX)
    }

    /// Returns all keys in order.
    #[must_use]
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.state.read().keys().cloned().collect()
    }

    /// Returns up to `limit` objects in key order, of one namespace or of all, after the key `after`. The page is one snapshot.
    #[must_use]
    pub fn page(&self, namespace: Option<&str>, after: Option<&ObjectKey>, limit: usize) -> Vec<Object> {
        self.state.read().range(namespace, after).take(limit).map(StoredObject::object).collect()
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().len()
    }

    /// Whether the store has no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the heap bytes of the objects as they are stored, approximately, including the compression dictionary. Indexes
    /// are not counted.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.state.read().bytes() + self.packer.as_ref().map_or(0, Packer::memory_size)
    }

    /// Returns the number of compressed objects. Looks at each object.
    #[must_use]
    pub fn packed(&self) -> usize {
        match self.packer {
            None => 0,
            Some(_) => self.state.read().objects().filter(|stored| stored.is_compressed()).count(),
        }
    }

    /// Returns the resource version up to which the store is complete; "" before the first list.
    #[must_use]
    pub fn resource_version(&self) -> String {
        self.state.read().resource_version().to_owned()
    }

    /// Records that the store is complete up to this version, although nothing changed (a bookmark).
    pub fn advance_to(&self, resource_version: &str) {
        self.state.write().advance_to(resource_version);
    }

    /// While frozen, inserting an object does not advance the store's version. The version promises that all earlier changes are in
    /// the store; while the queue merges, an inserted object may be newer than changes that have not been applied yet.
    pub(crate) fn freeze_version(&self, frozen: bool) {
        self.version_frozen.store(frozen, Ordering::Relaxed);
    }

    fn advances_version(&self) -> bool {
        !self.version_frozen.load(Ordering::Relaxed)
    }

    /// Adds an index (client-go's `AddIndexers`). It is complete when the call returns.
    ///
    /// # Errors
    /// Errors if the name is taken.
    pub fn add_index(&self, name: &str, function: IndexFn) -> Result<(), IndexError> {
        self.add_scoped_index(OWN_SCOPE, name, function)
    }

    /// Returns the objects that have this value in an index, in key order.
    ///
    /// # Errors
    /// Errors if there is no such index; the error lists the existing ones.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Object>, IndexError> {
        self.with_index(OWN_SCOPE, name, |state, id| {
            state.objects_with_value(id, value).map(StoredObject::object).collect()
        })
    }

    /// Returns the keys that have this value in an index, in order.
    ///
    /// # Errors
    /// Same as [`by_index`](Self::by_index).
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.with_index(OWN_SCOPE, name, |state, id| {
            state.objects_with_value(id, value).map(|o| o.key().clone()).collect()
        })
    }

    /// Returns all values that objects have in an index, in order.
    ///
    /// # Errors
    /// Same as [`by_index`](Self::by_index).
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, IndexError> {
        self.with_index(OWN_SCOPE, name, |state, id| state.index_values(id).map(str::to_owned).collect())
    }

    /// Returns the objects that share at least one value with `object` in an index, in key order.
    ///
    /// # Errors
    /// Same as [`by_index`](Self::by_index).
    pub fn index(&self, name: &str, object: &Object) -> Result<Vec<Object>, IndexError> {
        self.with_index(OWN_SCOPE, name, |state, id| {
            state.objects_sharing_value(id, object).into_iter().map(StoredObject::object).collect()
        })
    }

    pub(crate) fn add_scoped_index(
        &self,
        scope: ScopeId,
        name: &str,
        function: IndexFn,
    ) -> Result<(), IndexError> {
        let (function, memory) = function.split_memory();
        let check_is_new = |state: &State| match state.index_id(scope, name) {
            Some(_) => Err(IndexError::Exists { name: name.to_owned() }),
            None => Ok(()),
        };
        let objects = {
            let state = self.state.read();
            check_is_new(&state)?;
            state.objects_to_index(&function)
        };
        // Without the lock, so that the informer applies changes meanwhile.
        let mut snapshot = SnapshotIndex::of(function, objects);
        let state = self.state.upgradable_read();
        check_is_new(&state)?;
        let index = state.prepare_index(&mut snapshot);
        RwLockUpgradableReadGuard::upgrade(state).name_index(scope, name, index, memory);
        // The snapshot is dropped here, after the lock is released.
        Ok(())
    }

    /// Removes all index names of a scope, and the indexes that no other scope uses.
    pub(crate) fn drop_scope(&self, scope: ScopeId) {
        let dropped = self.state.write().drop_scope(scope);
        drop(dropped);
    }

    /// Removes an index name of a scope, and the index unless another name refers to it.
    pub(crate) fn drop_index(&self, scope: ScopeId, name: &str) {
        let dropped = self.state.write().drop_index(scope, name);
        drop(dropped);
    }

    pub(crate) fn with_index<R>(
        &self,
        scope: ScopeId,
        name: &str,
        read: impl FnOnce(&State, IndexId) -> R,
    ) -> Result<R, IndexError> {
        let state = self.state.read();
        match state.index_id(scope, name) {
            Some(id) => Ok(read(&state, id)),
            None => Err(IndexError::Unknown { name: name.to_owned(), indexes: state.index_names(scope) }),
        }
    }

    pub(crate) fn index_count(&self) -> usize {
        self.state.read().index_count()
    }

    pub(crate) fn index_names(&self, scope: ScopeId) -> Vec<String> {
        self.state.read().index_names(scope)
    }

    /// Calls `read` with the store locked: for filtered views that read several things at once.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&State) -> R) -> R {
        read(&self.state.read())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.read();
        f.debug_struct("Store")
            .field("objects", &state.len())
            .field("resource_version", &state.resource_version())
            .finish_non_exhaustive()
    }
}
