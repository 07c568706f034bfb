//! The cache of an informer: objects by key and by index.
//!
//! # Why one `RwLock` with short critical sections
//! The only writer is the informer's task. It prepares each change (index values, or a whole new map for a replaced list)
//! while readers go on, holding the lock's upgradable read half, and takes the write half only to put it in: one map
//! insertion per event, one pointer swap per relist (B20). A persistent map behind an `ArcSwap` would spare readers even
//! that, but costs several allocations for each event and about twice the memory for each object; with this choice an
//! object costs 16 bytes in the map beside its bytes, and a key in the order.
//!
//! # Compressed
//! Such a store keeps objects packed, each for itself ([`Store::compressed`]). Readers get views, which unpack outside the lock, when
//! they are asked for what is only in the text. Index functions are asked about views, too: one that looks at the namespace
//! unpacks nothing.

mod index;
mod stored;
mod object_map;
mod packing;
mod reader;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockUpgradableReadGuard};
use pilothouse_model::{Object, ObjectKey};

use crate::options::Compression;
pub use index::{IndexError, IndexFn};
pub(crate) use stored::StoredObject;
pub(crate) use object_map::{PrefetchPipeline, ObjectMap};
use packing::Packer;
pub use reader::StoreReader;
pub(crate) use reader::{ReaderSource, StoreView};
use state::{IndexId, State};

/// Whose index names are meant: each subscriber of a shared informer has its own.
pub(crate) type ScopeId = u64;

/// The scope of [`Store::add_index`].
const OWN_SCOPE: ScopeId = 0;

/// Objects by key and by index, safe for many threads. Objects are immutable (B24).
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
    /// Set while changes come in another order than that of their versions. Only the writer reads it.
    version_frozen: AtomicBool,
    packer: Option<Packer>,
}

impl Store {
    /// An empty store without indexes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store without indexes, whose objects are packed while nobody reads them.
    #[must_use]
    pub fn compressed(compression: Compression) -> Self {
        Self { packer: Some(Packer::new(compression)), ..Self::default() }
    }

    /// Puts an object in, and returns the one that it replaces. Also what client-go calls `Add`.
    pub fn update(&self, object: Object) -> Option<Object> {
        self.update_unless(object, |_, _| false).ok().flatten()
    }

    /// As [`update`](Self::update), unless `refuses` says so of the object and the one that it would replace.
    ///
    /// # Errors
    /// With the object when it was refused; nothing has changed then.
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

    /// Takes an object out and returns it. `resource_version` is that of the deletion, when known.
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

    /// Swaps the whole content for `items` in one step: a reader sees all of the old state or all of the new, indexes
    /// included, and never waits for the building of the new. Returns the old objects. Of two items with one key the
    /// later counts. Items are kept as they are: [`pack`](Self::pack) them before.
    pub(crate) fn replace(&self, items: &[Object], resource_version: &str) -> ObjectMap {
        if let Some(packer) = &self.packer {
            packer.end_list();
        }
        let state = self.state.upgradable_read();
        let mut fresh = state.rebuilt(items, resource_version);
        let mut state = RwLockUpgradableReadGuard::upgrade(state);
        std::mem::swap(&mut *state, &mut fresh);
        drop(state);
        // The old maps are dropped here, after the lock.
        fresh.into_objects()
    }

    /// Swaps the whole content for `items` in one step (B20).
    pub fn replace_all(&self, items: &[Object], resource_version: &str) {
        if self.packer.is_none() {
            drop(self.replace(items, resource_version));
            return;
        }
        let mut items = items.to_vec();
        self.pack(&mut items);
        drop(self.replace(&items, resource_version));
    }

    /// Puts packed objects in the place of those that the store, if it compresses, would pack; others stay as they are. For a
    /// list as it is read, so that it is never there plain as a whole.
    pub(crate) fn pack(&self, objects: &mut [Object]) {
        if let Some(packer) = &self.packer {
            packer.pack_listed(objects);
        }
    }

    /// The object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.state.read().get(key).map(StoredObject::object)
    }

    /// The object with this key, if it is not packed: for those who would not have it unpacked.
    pub(crate) fn get_if_plain(&self, key: &ObjectKey) -> Option<Object> {
        self.state.read().get(key).filter(|stored| !stored.is_packed()).map(StoredObject::object)
    }

    /// As [`Objects::fetch`].
    pub(crate) fn prefetch(&self, pipeline: &mut PrefetchPipeline, last: Option<(&str, &str)>) {
        self.state.read().prefetch(pipeline, last);
    }

    /// Whether there is an object with this key.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.state.read().get(key).is_some()
    }

    /// Whether the store has that very object, not one that is merely equal.
    pub(crate) fn contains_exact(&self, object: &Object) -> bool {
        self.state.read().get(object.key()).is_some_and(|stored| stored.is(object))
    }

    /// The stored object, if it has the same bytes.
    pub(crate) fn get_identical(&self, object: &Object) -> Option<Object> {
        let stored = self.state.read().get(object.key())?.clone();
        // Most that differ do so in their version, which is there without unpacking.
        let same = stored.resource_version() == object.resource_version() && stored.object() == *object;
        // A second view: the text that the comparison unpacked is not kept.
        same.then(|| stored.object())
    }

    /// All objects, by key.
    #[must_use]
    pub fn list(&self) -> Vec<Object> {
        self.page(None, None, usize::MAX)
    }

    /// All keys, in order.
    #[must_use]
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.state.read().keys().cloned().collect()
    }

    /// Up to `limit` objects, by key, of one namespace or all, after the key `after`. One snapshot.
    #[must_use]
    pub fn page(&self, namespace: Option<&str>, after: Option<&ObjectKey>, limit: usize) -> Vec<Object> {
        self.state.read().range(namespace, after).take(limit).map(StoredObject::object).collect()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Heap bytes of the objects as they are kept, approximately, with the dictionary of those that are packed; indexes are not
    /// counted.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.state.read().bytes() + self.packer.as_ref().map_or(0, Packer::memory_size)
    }

    /// How many objects are packed. Looks at each.
    #[must_use]
    pub fn packed(&self) -> usize {
        match self.packer {
            None => 0,
            Some(_) => self.state.read().objects().filter(|stored| stored.is_packed()).count(),
        }
    }

    /// The resource version up to which the store has seen everything; "" before the first list.
    #[must_use]
    pub fn resource_version(&self) -> String {
        self.state.read().resource_version().to_owned()
    }

    /// The store has seen everything up to this version, though nothing changed.
    pub fn advance_to(&self, resource_version: &str) {
        self.state.write().advance_to(resource_version);
    }

    /// While it is held, the version does not move with the objects: those that are put in may be newer than others that
    /// are still to come, and the version says that nothing is.
    pub(crate) fn freeze_version(&self, held: bool) {
        self.version_frozen.store(held, Ordering::Relaxed);
    }

    fn advances_version(&self) -> bool {
        !self.version_frozen.load(Ordering::Relaxed)
    }

    /// Adds an index, complete when the call returns (B22).
    ///
    /// # Errors
    /// When the name is taken.
    pub fn add_index(&self, name: &str, function: IndexFn) -> Result<(), IndexError> {
        self.add_scoped_index(OWN_SCOPE, name, function)
    }

    /// The objects that have this value in an index, by key.
    ///
    /// # Errors
    /// When there is no such index; the error names those there are.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Object>, IndexError> {
        self.with_index(OWN_SCOPE, name, |state, id| state.objects_with_value(id, value).map(StoredObject::object).collect())
    }

    /// The keys that have this value in an index, in order.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.with_index(OWN_SCOPE, name, |state, id| {
            state.objects_with_value(id, value).map(|o| o.key().clone()).collect()
        })
    }

    /// All values that objects have in an index, in order.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, IndexError> {
        self.with_index(OWN_SCOPE, name, |state, id| state.index_values(id).map(str::to_owned).collect())
    }

    /// The objects that share at least one value with `object` in an index, by key.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
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
        let state = self.state.upgradable_read();
        if state.index_id(scope, name).is_some() {
            return Err(IndexError::Exists { name: name.to_owned() });
        }
        let index = state.prepare_index(function);
        RwLockUpgradableReadGuard::upgrade(state).name_index(scope, name, index);
        Ok(())
    }

    /// Forgets all index names of a scope, and the indexes that no other scope names.
    pub(crate) fn drop_scope(&self, scope: ScopeId) {
        let dropped = self.state.write().drop_scope(scope);
        drop(dropped);
    }

    /// Forgets an index name of a scope, and the index unless another name leads to it.
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

    /// Reads under one lock: for views that filter.
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
