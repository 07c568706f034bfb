//! The state behind the store's lock: objects, their order and the indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use pilothouse_model::hash::HashMap;
use pilothouse_model::{Object, ObjectKey};
use tokio::time::Instant;

use super::object_map::{ObjectMap, PrefetchPipeline};
use super::{IndexFn, IndexMemory, ScopeId, StoredObject};

pub(crate) type IndexId = u64;

/// Objects, their order and the indexes.
///
/// Invariants: `order` holds exactly the keys of `objects`. Each index holds exactly the values that its function returns
/// for the objects, and no value without objects. Each name refers to an index, and each index has a name. `bytes` is the
/// sum of the objects' sizes.
#[derive(Default)]
pub(crate) struct State {
    objects: ObjectMap,
    order: BTreeSet<ObjectKey>,
    bytes: usize,
    resource_version: String,
    /// When the last two lists were stored, the earlier one first.
    list_times: [Option<Instant>; 2],
    indexes: BTreeMap<IndexId, Index>,
    names: HashMap<(ScopeId, String), IndexId>,
    next_index: IndexId,
}

/// An index, and what it costs.
///
/// Invariants: `bytes` is the sum of [`VALUE_BYTES`] and the length of each value, and of [`KEY_BYTES`] for each of its keys. It is charged to each
/// of `accounts`, once after each change and until the account is removed.
struct Index {
    function: IndexFn,
    keys: BTreeMap<Arc<str>, BTreeSet<ObjectKey>>,
    bytes: usize,
    accounts: Vec<IndexAccount>,
}

/// Whom an index is charged to.
struct IndexAccount {
    memory: Arc<dyn IndexMemory>,
    /// The names for which it is charged, at least one.
    names: Vec<(ScopeId, String)>,
}

/// An estimate of the bytes that a value of an index uses, apart from its text: its entry and a node for its first keys.
const VALUE_BYTES: usize = 320;
/// An estimate of the bytes that a key in an index uses. Its text is that of the object.
const KEY_BYTES: usize = 40;

/// An index that is about to get a name: an existing one or a new one.
pub(super) enum PreparedIndex {
    Shared(IndexId),
    New(BuiltIndex),
}

/// A complete index that is not part of the state yet.
pub(super) struct BuiltIndex(Index);

/// An index of the objects that were in the store some time ago. It is built without the store's lock.
pub(super) struct SnapshotIndex {
    index: Index,
    /// The objects in key order.
    objects: Vec<StoredObject>,
}

/// The values to remove from and to add to one index for one key.
pub(super) struct IndexChange {
    index: IndexId,
    removed: Vec<String>,
    added: Vec<String>,
}

impl State {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&StoredObject> {
        self.objects.get(key)
    }

    /// Like [`ObjectMap::prefetch`].
    pub(super) fn prefetch(&self, pipeline: &mut PrefetchPipeline, last: Option<(&str, &str)>) {
        self.objects.prefetch(pipeline, last);
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &StoredObject> {
        self.objects.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.order.iter()
    }

    pub(super) fn resource_version(&self) -> &str {
        &self.resource_version
    }

    pub(super) fn last_list_began_after(&self) -> Option<Instant> {
        self.list_times[0]
    }

    /// Returns objects in key order, of one namespace or of all, after a key.
    pub(crate) fn range<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &'a StoredObject> + use<'a> {
        // No object has an empty name, so this key sorts before all objects of the namespace and equals none of them.
        let before_namespace = namespace.map(|namespace| ObjectKey::new(namespace, ""));
        let start = before_namespace.max(after.cloned()).map_or(Bound::Unbounded, Bound::Excluded);
        self.order
            .range((start, Bound::Unbounded))
            .take_while(move |key| namespace.is_none_or(|namespace| key.namespace() == namespace))
            .filter_map(|key| self.get(key))
    }

    pub(super) fn insert(&mut self, object: StoredObject, new: bool, advances_version: bool) {
        if new {
            self.order.insert(object.key().clone());
        }
        if advances_version {
            set_version(&mut self.resource_version, object.resource_version());
        }
        self.bytes += object.memory_size();
        if let Some(old) = self.objects.replace(object) {
            self.bytes -= old.memory_size();
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey, resource_version: Option<&str>) {
        if let Some(old) = self.objects.take(key) {
            self.bytes -= old.memory_size();
        }
        self.order.remove(key);
        set_version(&mut self.resource_version, resource_version.unwrap_or_default());
    }

    pub(super) fn advance_to(&mut self, resource_version: &str) {
        set_version(&mut self.resource_version, resource_version);
    }

    /// Stores every object again, in the form that `pack` returns.
    pub(super) fn repack(&mut self, pack: impl Fn(Object) -> StoredObject) {
        let objects = std::mem::take(&mut self.objects);
        self.objects = objects.iter().map(|stored| pack(stored.object())).collect();
        self.bytes = self.objects.iter().map(StoredObject::memory_size).sum();
    }

    /// Builds a state with the same indexes and names over other objects.
    pub(super) fn rebuilt(&self, items: &[Object], resource_version: &str) -> Self {
        let mut objects = ObjectMap::with_capacity(items.len());
        for object in items {
            objects.replace(StoredObject::new(object.clone()));
        }
        let order = objects.iter().map(|stored| stored.key().clone()).collect();
        let empty = |(id, index): (&IndexId, &Index)| (*id, Index::new(index.function.clone()));
        let mut indexes: BTreeMap<_, _> = self.indexes.iter().map(empty).collect();
        if !indexes.is_empty() {
            for stored in objects.iter() {
                let object = stored.object();
                indexes.values_mut().for_each(|index| index.add(&object));
            }
        }
        Self {
            bytes: objects.iter().map(StoredObject::memory_size).sum(),
            objects,
            order,
            resource_version: resource_version.to_owned(),
            list_times: [self.list_times[1], Some(Instant::now())],
            indexes,
            names: self.names.clone(),
            next_index: self.next_index,
        }
    }

    /// Charges the indexes of this state, which replaces `old`, to the accounts of the old ones.
    pub(super) fn take_accounts(&mut self, old: &mut Self) {
        for (id, index) in &mut self.indexes {
            let Some(old) = old.indexes.get_mut(id) else { continue };
            index.accounts = std::mem::take(&mut old.accounts);
            index.charge_since(old.bytes);
        }
    }

    pub(super) fn into_objects(self) -> ObjectMap {
        self.objects
    }

    pub(super) fn index_changes(&self, old: Option<&Object>, new: Option<&Object>) -> Vec<IndexChange> {
        let mut changes = Vec::new();
        for (id, index) in &self.indexes {
            if old.zip(new).is_some_and(|(old, new)| index.function.is_unchanged(old, new)) {
                continue;
            }
            let mut removed = old.map_or_else(Vec::new, |object| index.function.values(object));
            let mut added = new.map_or_else(Vec::new, |object| index.function.values(object));
            // Both are sorted. Most updates change no value.
            if removed == added {
                continue;
            }
            let before = removed.clone();
            removed.retain(|value| added.binary_search(value).is_err());
            added.retain(|value| before.binary_search(value).is_err());
            changes.push(IndexChange { index: *id, removed, added });
        }
        changes
    }

    pub(super) fn apply_index_changes(&mut self, key: &ObjectKey, changes: Vec<IndexChange>) {
        for change in changes {
            let Some(index) = self.indexes.get_mut(&change.index) else { continue };
            let before = index.bytes;
            for value in &change.removed {
                index.remove(value, key);
            }
            for value in &change.added {
                index.insert(value, key);
            }
            index.charge_since(before);
        }
    }

    pub(crate) fn index_id(&self, scope: ScopeId, name: &str) -> Option<IndexId> {
        self.names.get(&(scope, name.to_owned())).copied()
    }

    pub(super) fn index_names(&self, scope: ScopeId) -> Vec<String> {
        let mut names: Vec<_> =
            self.names.keys().filter(|(owner, _)| *owner == scope).map(|(_, name)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn objects_with_value<'a>(
        &'a self,
        id: IndexId,
        value: &str,
    ) -> impl Iterator<Item = &'a StoredObject> + use<'a> {
        self.objects_with_value_after(id, value, None)
    }

    /// Like [`objects_with_value`](Self::objects_with_value), from the object after this key.
    pub(crate) fn objects_with_value_after<'a>(
        &'a self,
        id: IndexId,
        value: &str,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &'a StoredObject> + use<'a> {
        let keys = self.indexes.get(&id).and_then(|index| index.keys.get(value));
        let start = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
        let rest = keys.map(|keys| keys.range((start, Bound::Unbounded)));
        rest.into_iter().flatten().filter_map(|key| self.get(key))
    }

    pub(crate) fn index_values(&self, id: IndexId) -> impl Iterator<Item = &str> {
        self.index_values_from(id, Bound::Unbounded)
    }

    /// Like [`index_values`](Self::index_values), from a value on.
    pub(crate) fn index_values_from<'a>(
        &'a self,
        id: IndexId,
        start: Bound<&str>,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let values = self.indexes.get(&id).map(|index| index.keys.range::<str, _>((start, Bound::Unbounded)));
        values.into_iter().flatten().map(|(value, _)| &**value)
    }

    pub(crate) fn objects_sharing_value(&self, id: IndexId, object: &Object) -> Vec<&StoredObject> {
        let Some(index) = self.indexes.get(&id) else { return Vec::new() };
        let values = index.function.values(object);
        let keys: BTreeSet<_> =
            values.iter().filter_map(|value| index.keys.get(value.as_str())).flatten().collect();
        keys.into_iter().filter_map(|key| self.get(key)).collect()
    }

    /// Returns the objects in key order, of which a new index is built; none if there is an equivalent index.
    pub(super) fn objects_to_index(&self, function: &IndexFn) -> Vec<StoredObject> {
        match self.equivalent_index(function) {
            Some(_) => Vec::new(),
            None => self.range(None, None).cloned().collect(),
        }
    }

    fn equivalent_index(&self, function: &IndexFn) -> Option<IndexId> {
        let equivalent = self.indexes.iter().find(|(_, index)| index.function.is_equivalent(function));
        equivalent.map(|(id, _)| *id)
    }

    /// Completes an index with what has changed since its snapshot, unless there is an equivalent index.
    pub(super) fn prepare_index(&self, snapshot: &mut SnapshotIndex) -> PreparedIndex {
        if let Some(id) = self.equivalent_index(&snapshot.index.function) {
            return PreparedIndex::Shared(id);
        }
        snapshot.catch_up(self);
        let empty = Index::new(snapshot.index.function.clone());
        PreparedIndex::New(BuiltIndex(std::mem::replace(&mut snapshot.index, empty)))
    }

    /// Gives an index a name. It is charged to `memory` until the name is removed.
    pub(super) fn name_index(
        &mut self,
        scope: ScopeId,
        name: &str,
        index: PreparedIndex,
        memory: Option<Arc<dyn IndexMemory>>,
    ) {
        let id = match index {
            PreparedIndex::Shared(id) => id,
            PreparedIndex::New(BuiltIndex(index)) => {
                let id = self.next_index;
                self.next_index += 1;
                self.indexes.insert(id, index);
                id
            }
        };
        if let (Some(index), Some(memory)) = (self.indexes.get_mut(&id), memory) {
            index.charge_to(memory, (scope, name.to_owned()));
        }
        self.names.insert((scope, name.to_owned()), id);
    }

    pub(super) fn index_count(&self) -> usize {
        self.indexes.len()
    }

    /// Like [`drop_scope`](Self::drop_scope), for one name.
    pub(super) fn drop_index(&mut self, scope: ScopeId, name: &str) -> Option<BuiltIndex> {
        let id = self.names.remove(&(scope, name.to_owned()))?;
        if let Some(index) = self.indexes.get_mut(&id) {
            index.release(|named| named.0 == scope && named.1 == name);
        }
        let has_name = self.names.values().any(|named| *named == id);
        if has_name { None } else { self.indexes.remove(&id).map(BuiltIndex) }
    }

    /// Removes all index names of a scope, and returns the indexes that lost their last name, so that the caller frees them
    /// after releasing the lock.
    pub(super) fn drop_scope(&mut self, scope: ScopeId) -> Vec<BuiltIndex> {
        self.names.retain(|(owner, _), _| *owner != scope);
        self.indexes.values_mut().for_each(|index| index.release(|named| named.0 == scope));
        let named: BTreeSet<_> = self.names.values().copied().collect();
        let unnamed: Vec<_> = self.indexes.keys().copied().filter(|id| !named.contains(id)).collect();
        unnamed.into_iter().filter_map(|id| self.indexes.remove(&id)).map(BuiltIndex).collect()
    }
}

impl SnapshotIndex {
    /// Builds an index of these objects, which are in key order.
    pub(super) fn of(function: IndexFn, objects: Vec<StoredObject>) -> Self {
        let mut index = Index::new(function);
        objects.iter().for_each(|stored| index.add(&stored.object()));
        Self { index, objects }
    }

    /// Replaces the values of the objects that changed since the snapshot. Compares only which objects are the same, so that the lock is
    /// held for a short time.
    fn catch_up(&mut self, state: &State) {
        let mut before = self.objects.iter().peekable();
        for stored in state.range(None, None) {
            while let Some(gone) = before.next_if(|before| before.key() < stored.key()) {
                self.index.forget(&gone.object());
            }
            let before = before.next_if(|before| before.key() == stored.key());
            if before.is_some_and(|before| before.is_same_stored(stored)) {
                continue;
            }
            if let Some(before) = before {
                self.index.forget(&before.object());
            }
            self.index.add(&stored.object());
        }
        before.for_each(|gone| self.index.forget(&gone.object()));
    }
}

fn set_version(current: &mut String, version: &str) {
    if !version.is_empty() {
        current.clear();
        current.push_str(version);
    }
}

impl Index {
    fn new(function: IndexFn) -> Self {
        Self { function, keys: BTreeMap::new(), bytes: 0, accounts: Vec::new() }
    }

    /// Charges the difference to a former number of bytes, which was charged.
    fn charge_since(&self, before: usize) {
        for IndexAccount { memory, .. } in &self.accounts {
            match self.bytes.checked_sub(before) {
                Some(0) => {}
                Some(more) => memory.grew(more),
                None => memory.shrank(before - self.bytes),
            }
        }
    }

    /// Charges the index to an account because of a name. An account is charged once, however many of the names are its own.
    fn charge_to(&mut self, memory: Arc<dyn IndexMemory>, name: (ScopeId, String)) {
        match self.accounts.iter_mut().find(|account| Arc::ptr_eq(&account.memory, &memory)) {
            Some(account) => account.names.push(name),
            None => {
                memory.grew(self.bytes);
                self.accounts.push(IndexAccount { memory, names: vec![name] });
            }
        }
    }

    /// Removes names from the accounts, and the accounts that have none left.
    fn release(&mut self, is_removed: impl Fn(&(ScopeId, String)) -> bool) {
        let bytes = self.bytes;
        self.accounts.retain_mut(|account| {
            account.names.retain(|name| !is_removed(name));
            if account.names.is_empty() {
                account.memory.shrank(bytes);
            }
            !account.names.is_empty()
        });
    }

    fn add(&mut self, object: &Object) {
        for value in self.function.values(object) {
            self.insert(&value, object.key());
        }
    }

    fn forget(&mut self, object: &Object) {
        for value in self.function.values(object) {
            self.remove(&value, object.key());
        }
    }

    fn insert(&mut self, value: &str, key: &ObjectKey) {
        if let Some(keys) = self.keys.get_mut(value) {
            self.bytes += if keys.insert(key.clone()) { KEY_BYTES } else { 0 };
        } else {
            self.keys.insert(Arc::from(value), BTreeSet::from([key.clone()]));
            self.bytes += VALUE_BYTES + value.len() + KEY_BYTES;
        }
    }

    /// Removes a key from a value, and the value if it has no objects left.
    fn remove(&mut self, value: &str, key: &ObjectKey) {
        if let Some(keys) = self.keys.get_mut(value) {
            self.bytes -= if keys.remove(key) { KEY_BYTES } else { 0 };
            if keys.is_empty() {
                self.keys.remove(value);
                self.bytes -= VALUE_BYTES + value.len();
            }
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.release(|_| true);
    }
}
