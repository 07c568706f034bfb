//! Objects by key: a hash table that is told a key's hash, so that one look-up serves several steps, and that can have the processor
//! load what a later look-up will read.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use pilothouse_model::{ObjectKey, fetch};

use super::Kept;
use crate::key::FastHash;

/// Objects by key, each key once.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    table: HashTable<Kept>,
    hasher: FastHash,
}

impl Objects {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { table: HashTable::with_capacity(capacity), hasher: FastHash::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.table.iter()
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Kept> {
        self.table.find(self.hash(key), |kept| kept.key() == key)
    }

    /// Puts an object in, and returns the one with the same key that it replaces.
    pub(crate) fn replace(&mut self, object: Kept) -> Option<Kept> {
        let hash = self.hash(object.key());
        let hasher = &self.hasher;
        let same = |kept: &Kept| kept.key() == object.key();
        match self.table.entry(hash, same, |kept| hasher.hash_one(kept.key())) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(entry.get_mut(), object)),
            Entry::Vacant(entry) => {
                entry.insert(object);
                None
            }
        }
    }

    /// Takes an object out.
    pub(crate) fn take(&mut self, key: &ObjectKey) -> Option<Kept> {
        let entry = self.table.find_entry(self.hash(key), |kept| kept.key() == key).ok()?;
        Some(entry.remove().0)
    }

    fn hash(&self, key: &ObjectKey) -> u64 {
        self.hasher.hash_one(key)
    }
}

impl FromIterator<Kept> for Objects {
    /// Of two with one key, the later counts.
    fn from_iter<T: IntoIterator<Item = Kept>>(objects: T) -> Self {
        let objects = objects.into_iter();
        let mut all = Self::with_capacity(objects.size_hint().0);
        for object in objects {
            all.replace(object);
        }
        all
    }
}

/// Objects that will be looked up soon, the next first, by their hashes. Each step has the processor load what the step after it reads,
/// and goes on with another object meanwhile: an object among many is in no cache, and a look-up waits for the place in the table, then
/// for the object, then for its text.
///
/// All of it is hints. A hash that another key shares, or that is of a table that is gone, costs a load for nothing.
#[derive(Default)]
pub(crate) struct Coming {
    /// Its place in the table has been asked for.
    placed: Option<u64>,
    /// It has been asked for.
    found: Option<u64>,
}

impl Objects {
    /// A step of all that are coming; the last is the one with this namespace and name.
    pub(crate) fn fetch(&self, coming: &mut Coming, last: Option<(&str, &str)>) {
        let kept = |hash: Option<u64>| self.table.find(hash?, |_| true);
        if let Some(Kept::Plain(object)) = kept(coming.found.take()) {
            object.fetch_text();
        }
        coming.found = coming.placed.take();
        if let Some(Kept::Plain(object)) = kept(coming.found) {
            object.fetch_metadata();
        }
        coming.placed = last.map(|(namespace, name)| {
            ObjectKey::with_text(namespace, name, |text| self.hasher.hash_one(text))
        });
        if let Some(place) = kept(coming.placed) {
            fetch(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::pod;

    #[test]
    fn each_key_is_there_once() {
        let kept = |name: &str, version| Kept::of(pod(name, version).object());
        let mut objects: Objects =
            [("a", 1), ("b", 2), ("a", 3)].map(|(name, version)| kept(name, version)).into_iter().collect();
        let version = |objects: &Objects, name: &str| {
            objects.get(pod(name, 1).object().key()).map(|kept| kept.resource_version().to_owned())
        };
        assert_eq!((objects.len(), objects.iter().count()), (2, 2));
        assert_eq!(version(&objects, "a").as_deref(), Some("3"));
        let old = objects.replace(kept("b", 4)).expect("it was there");
        assert_eq!((old.resource_version(), version(&objects, "b").as_deref()), ("2", Some("4")));
        assert!(objects.replace(kept("c", 5)).is_none());
        let taken = objects.take(old.key()).expect("it was there");
        assert_eq!((taken.resource_version(), objects.len()), ("4", 2));
        assert!(objects.take(old.key()).is_none() && objects.get(old.key()).is_none());
    }

    #[test]
    fn what_is_coming_is_looked_for_by_the_hash_of_its_key() {
        let objects: Objects = (1..20).map(|i| Kept::of(pod(&format!("pod-{i}"), i).object())).collect();
        let keys: Vec<_> = objects.iter().map(|kept| kept.key().clone()).collect();
        let mut coming = Coming::default();
        for pair in keys.windows(2) {
            objects.fetch(&mut coming, Some((pair[0].namespace(), pair[0].name())));
            objects.fetch(&mut coming, Some((pair[1].namespace(), pair[1].name())));
            assert_eq!(coming.found, Some(objects.hash(&pair[0])));
            assert_eq!(coming.placed, Some(objects.hash(&pair[1])));
        }
        objects.fetch(&mut coming, None);
        objects.fetch(&mut coming, Some(("no", "such")));
        assert!(coming.found.is_none() && coming.placed.is_some());
        objects.fetch(&mut coming, None);
        objects.fetch(&mut coming, None);
        assert!(coming.found.is_none() && coming.placed.is_none());
    }
}
