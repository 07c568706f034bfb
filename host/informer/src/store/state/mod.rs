//! The state behind the store's lock: objects, their order and the indexes.

mod index;
mod index_lifecycle;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use pilothouse_model::hash::HashMap;
use pilothouse_model::{Object, ObjectKey};
use tokio::time::Instant;

use super::object_map::{ObjectMap, PrefetchPipeline};
use super::{ScopeId, StoredObject};
use index::Index;
pub(super) use index_lifecycle::SnapshotIndex;

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
}

fn set_version(current: &mut String, version: &str) {
    if !version.is_empty() {
        current.clear();
        current.push_str(version);
    }
}
