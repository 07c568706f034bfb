//! A hash table of objects by key. Its hashes are explicit, so one lookup serves several steps, and later lookups can
//! be prefetched into the CPU cache.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use pilothouse_model::hash::HashState;
use pilothouse_model::{ObjectKey, prefetch};

use super::StoredObject;

/// A hash map of stored objects, keyed by their own object keys.
#[derive(Clone, Default)]
pub(crate) struct ObjectMap {
    table: HashTable<StoredObject>,
    hasher: HashState,
}

impl ObjectMap {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { table: HashTable::with_capacity(capacity), hasher: HashState::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &StoredObject> {
        self.table.iter()
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&StoredObject> {
        self.table.find(self.hash(key), |stored| stored.key() == key)
    }

    /// Inserts an object and returns the one with the same key that it replaces.
    pub(crate) fn replace(&mut self, object: StoredObject) -> Option<StoredObject> {
        let hash = self.hash(object.key());
        let hasher = &self.hasher;
        let same = |stored: &StoredObject| stored.key() == object.key();
        match self.table.entry(hash, same, |stored| hasher.hash_one(stored.key())) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(entry.get_mut(), object)),
            Entry::Vacant(entry) => {
                entry.insert(object);
                None
            }
        }
    }

    /// Removes an object.
    pub(crate) fn take(&mut self, key: &ObjectKey) -> Option<StoredObject> {
        let entry = self.table.find_entry(self.hash(key), |stored| stored.key() == key).ok()?;
        Some(entry.remove().0)
    }

    fn hash(&self, key: &ObjectKey) -> u64 {
        self.hasher.hash_one(key)
    }
}

impl FromIterator<StoredObject> for ObjectMap {
    /// If two objects have the same key, the later one wins.
    fn from_iter<T: IntoIterator<Item = StoredObject>>(objects: T) -> Self {
        let objects = objects.into_iter();
        let mut all = Self::with_capacity(objects.size_hint().0);
        for object in objects {
            all.replace(object);
        }
        all
    }
}

/// The hashes of objects that will be looked up soon, one per prefetch stage. In a large store an object is in no CPU
/// cache, so a lookup waits for memory three times: for the slot in the table, for the object, and for its text. Each
/// step prefetches what the next stage reads, for three objects at once.
///
/// Prefetches are only hints. A hash collision or a replaced table costs a useless memory access, nothing else.
#[derive(Default)]
pub(crate) struct PrefetchPipeline {
    /// The object whose slot in the table was prefetched last.
    slot: Option<u64>,
    /// The object that was prefetched last; its text is next.
    object: Option<u64>,
}

impl ObjectMap {
    /// Advances all objects in the pipeline by one stage, and adds the one with this namespace and name.
    pub(crate) fn prefetch(&self, pipeline: &mut PrefetchPipeline, next: Option<(&str, &str)>) {
        let stored = |hash: Option<u64>| self.table.find(hash?, |_| true);
        if let Some(object) = stored(pipeline.object.take()) {
            object.prefetch_text();
        }
        pipeline.object = pipeline.slot.take();
        if let Some(object) = stored(pipeline.object) {
            object.prefetch_metadata();
        }
        pipeline.slot = next.map(|(namespace, name)| {
            ObjectKey::with_text(namespace, name, |text| self.hasher.hash_one(text))
        });
        if let Some(slot) = stored(pipeline.slot) {
            prefetch(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_server::pod;

    #[test]
    fn each_key_is_stored_once() {
        let stored = |name: &str, version| StoredObject::new(pod(name, version).object());
        let mut objects: ObjectMap =
            [("a", 1), ("b", 2), ("a", 3)].map(|(name, version)| stored(name, version)).into_iter().collect();
        let version = |objects: &ObjectMap, name: &str| {
            objects.get(pod(name, 1).object().key()).map(|stored| stored.resource_version().to_owned())
        };
        assert_eq!((objects.len(), objects.iter().count()), (2, 2));
        assert_eq!(version(&objects, "a").as_deref(), Some("3"));
        let old = objects.replace(stored("b", 4)).expect("it was there");
        assert_eq!((old.resource_version(), version(&objects, "b").as_deref()), ("2", Some("4")));
        assert!(objects.replace(stored("c", 5)).is_none());
        let taken = objects.take(old.key()).expect("it was there");
        assert_eq!((taken.resource_version(), objects.len()), ("4", 2));
        assert!(objects.take(old.key()).is_none() && objects.get(old.key()).is_none());
    }

    #[test]
    fn prefetching_finds_objects_by_the_hash_of_their_key() {
        let objects: ObjectMap =
            (1..20).map(|i| StoredObject::new(pod(&format!("pod-{i}"), i).object())).collect();
        let keys: Vec<_> = objects.iter().map(|stored| stored.key().clone()).collect();
        let mut pipeline = PrefetchPipeline::default();
        for pair in keys.windows(2) {
            objects.prefetch(&mut pipeline, Some((pair[0].namespace(), pair[0].name())));
            objects.prefetch(&mut pipeline, Some((pair[1].namespace(), pair[1].name())));
            assert_eq!(pipeline.object, Some(objects.hash(&pair[0])));
            assert_eq!(pipeline.slot, Some(objects.hash(&pair[1])));
        }
        objects.prefetch(&mut pipeline, None);
        objects.prefetch(&mut pipeline, Some(("no", "such")));
        assert!(pipeline.object.is_none() && pipeline.slot.is_some());
        objects.prefetch(&mut pipeline, None);
        objects.prefetch(&mut pipeline, None);
        assert!(pipeline.object.is_none() && pipeline.slot.is_none());
    }
}
