//! Indexes whose values the plugin computes. They are kept outside of the shared informer, which must not wait for a guest, and are visible
//! to this plugin only.
//!
//! The values are charged to the plugin's [`HostMemory`] while they are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use parking_lot::RwLock;
use pilothouse_model::hash::HashMap;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryExceeded, HostMemoryKind};

/// The computed indexes of one watch.
#[derive(Debug, Default)]
pub(crate) struct ComputedIndexes {
    names: Vec<String>,
    contents: RwLock<Contents>,
    memory: HostMemory,
}

/// An estimate of the bytes that one value of one object uses, apart from its text: in the entry and in the index.
const VALUE_BYTES: usize = 160;

#[derive(Debug, Default)]
struct Contents {
    objects: HashMap<ObjectKey, Entry>,
    /// The keys by value, one map per index, in the order of the names.
    by_value: Vec<BTreeMap<String, BTreeSet<ObjectKey>>>,
}

/// The values that the plugin computed for one state of one object.
#[derive(Debug)]
struct Entry {
    state: Object,
    /// One list per index, in the order of the names.
    values: Vec<Vec<String>>,
    /// `None` without values.
    _charge: Option<HostMemoryCharge>,
}

impl ComputedIndexes {
    pub(crate) fn new(names: Vec<String>, memory: HostMemory) -> Self {
        let by_value = names.iter().map(|_| BTreeMap::new()).collect();
        Self { names, contents: RwLock::new(Contents { objects: HashMap::default(), by_value }), memory }
    }

    /// The names of the indexes.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether the watch has no computed index.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether the indexes contain the values of this state; for an absent object, whether they do not contain the key.
    pub(crate) fn is_current(&self, key: &ObjectKey, state: Option<&Object>) -> bool {
        match (self.contents.read().objects.get(key), state) {
            (None, None) => true,
            // The bytes are compared, because a relist delivers the same state in another allocation.
            (Some(entry), Some(state)) => {
                entry.state.ptr_eq(state) || entry.state.fresh_view().json() == state.json()
            }
            _ => false,
        }
    }

    /// Replaces the object's values: one list per index, in the order of the names. Errors if they do not fit into the plugin's host memory;
    /// the object is then stored without values.
    pub(crate) fn set(&self, state: &Object, mut values: Vec<Vec<String>>) -> Result<(), HostMemoryExceeded> {
        let mut contents = self.contents.write();
        // First, because the memory of the old values is then available to the new ones.
        contents.remove(state.key());
        let (mut charge, mut outcome) = (None, Ok(()));
        match bytes(&values) {
            0 => {}
            bytes => match self.memory.try_charge(HostMemoryKind::IndexValues, bytes) {
                Ok(new_charge) => charge = Some(new_charge),
                Err(exceeded) => {
                    values.iter_mut().for_each(|values| *values = Vec::new());
                    outcome = Err(exceeded);
                }
            },
        }
        for (by_value, values) in contents.by_value.iter_mut().zip(&values) {
            for value in values {
                by_value.entry(value.clone()).or_default().insert(state.key().clone());
            }
        }
        // A view of its own: what the plugin or a comparison unpacks is not kept.
        let state = state.fresh_view();
        contents.objects.insert(state.key().clone(), Entry { state, values, _charge: charge });
        outcome
    }

    /// Removes an object that does not exist any more.
    pub(crate) fn remove(&self, key: &ObjectKey) {
        self.contents.write().remove(key);
    }

    /// Returns up to `limit` keys of the objects with this value, in order, after the key `after`.
    pub(crate) fn keys(
        &self,
        index: &str,
        value: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Vec<ObjectKey> {
        let contents = self.contents.read();
        let keys = self.position(index).and_then(|position| contents.by_value[position].get(value));
        let start = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
        let rest = keys.map(|keys| keys.range((start, Bound::Unbounded)));
        rest.into_iter().flatten().take(limit).cloned().collect()
    }

    /// Looks at up to `limit` values, in order, after the value `after`. Returns those that at least one present object has, and the last one
    /// if there may be more.
    pub(crate) fn values(
        &self,
        index: &str,
        after: Option<&str>,
        limit: usize,
        is_present: impl Fn(&ObjectKey) -> bool,
    ) -> (Vec<String>, Option<String>) {
        let contents = self.contents.read();
        let Some(position) = self.position(index) else { return (Vec::new(), None) };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let values = contents.by_value[position].range::<str, _>((start, Bound::Unbounded)).take(limit);
        let (mut found, mut last, mut count) = (Vec::new(), None, 0);
        for (value, keys) in values {
            if keys.iter().any(&is_present) {
                found.push(value.clone());
            }
            (last, count) = (Some(value), count + 1);
        }
        (found, last.filter(|_| count == limit).cloned())
    }

    /// Returns the keys of all objects that are stored, with or without values.
    pub(crate) fn indexed_keys(&self) -> Vec<ObjectKey> {
        self.contents.read().objects.keys().cloned().collect()
    }

    fn position(&self, index: &str) -> Option<usize> {
        self.names.iter().position(|name| name == index)
    }
}

impl Contents {
    fn remove(&mut self, key: &ObjectKey) {
        let Some(entry) = self.objects.remove(key) else { return };
        for (by_value, values) in self.by_value.iter_mut().zip(entry.values) {
            for value in values {
                if let Some(keys) = by_value.get_mut(&value) {
                    keys.remove(key);
                    if keys.is_empty() {
                        by_value.remove(&value);
                    }
                }
            }
        }
    }
}

/// Estimates the bytes that values use. Each text is stored twice.
fn bytes(values: &[Vec<String>]) -> usize {
    values.iter().flatten().map(|value| VALUE_BYTES + 2 * value.len()).sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use pilothouse_model::{ObjectReader, ParseOptions};

    use super::*;

    /// Returns a Pod whose text is made from that of another one, and is not unpacked.
    pub(crate) fn packed_pod(name: &str) -> Object {
        let options = ParseOptions::default().with_shared_text(1);
        let mut reader = ObjectReader::default();
        let mut read = |name| reader.read(pod_text(name).as_bytes(), &options, |_| None).expect("an object");
        drop(read("base"));
        read(name).fresh_view()
    }

    fn pod_text(name: &str) -> String {
        let padding = "padding ".repeat(200);
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"1","ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"o","uid":"o"}}]}},"spec":{{"padding":"{padding}"}}}}"#
        )
    }

    fn object(name: &str, version: &str) -> Object {
        Object::from_json(format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#
        ))
        .expect("an object")
    }

    /// Reads one key at a time.
    fn all_keys(computed: &ComputedIndexes, index: &str, value: &str) -> Vec<ObjectKey> {
        let mut keys: Vec<ObjectKey> = Vec::new();
        loop {
            let next = computed.keys(index, value, keys.last(), 1);
            if next.is_empty() {
                return keys;
            }
            keys.extend(next);
        }
    }

    /// Reads one value at a time.
    fn all_values(computed: &ComputedIndexes, index: &str) -> Vec<String> {
        let (mut values, mut after) = (Vec::new(), None);
        loop {
            let (found, last) = computed.values(index, after.as_deref(), 1, |_| true);
            values.extend(found);
            after = last;
            if after.is_none() {
                return values;
            }
        }
    }

    fn names(keys: &[ObjectKey]) -> Vec<&str> {
        keys.iter().map(ObjectKey::name).collect()
    }

    fn values(values: &[&[&str]]) -> Vec<Vec<String>> {
        values.iter().map(|values| values.iter().map(ToString::to_string).collect()).collect()
    }

    #[test]
    fn an_update_moves_an_object_between_values_and_an_empty_value_is_dropped() {
        let computed =
            ComputedIndexes::new(vec!["team".to_owned(), "zone".to_owned()], HostMemory::default());
        computed.set(&object("a", "1"), values(&[&["red", "blue"], &["z"]])).expect("room");
        computed.set(&object("b", "1"), values(&[&["red"], &[]])).expect("room");
        assert_eq!(names(&all_keys(&computed, "team", "red")), ["a", "b"]);
        assert_eq!(all_values(&computed, "team"), ["blue", "red"]);
        computed.set(&object("a", "2"), values(&[&["green"], &["z"]])).expect("room");
        assert_eq!(names(&all_keys(&computed, "team", "red")), ["b"]);
        assert_eq!(all_values(&computed, "team"), ["green", "red"]);
        assert_eq!(all_values(&computed, "zone"), ["z"]);
        computed.remove(&ObjectKey::cluster("a"));
        assert_eq!(all_values(&computed, "team"), ["red"]);
        assert!(all_values(&computed, "zone").is_empty() && all_keys(&computed, "zone", "z").is_empty());
    }

    #[test]
    fn values_are_current_only_for_the_state_that_they_were_computed_from() {
        let computed = ComputedIndexes::new(vec!["team".to_owned()], HostMemory::default());
        let key = ObjectKey::cluster("a");
        assert!(computed.is_current(&key, None), "an absent object is in no index");
        assert!(!computed.is_current(&key, Some(&object("a", "1"))));
        computed.set(&object("a", "1"), values(&[&[]])).expect("room");
        assert!(
            computed.is_current(&key, Some(&object("a", "1"))),
            "the same bytes in another allocation, even without values"
        );
        assert!(!computed.is_current(&key, Some(&object("a", "2"))));
        assert!(!computed.is_current(&key, None), "the object is gone, and must be removed");
    }

    #[test]
    fn what_a_plugin_reads_of_an_object_is_not_kept() {
        let packed = packed_pod("b");
        let packed_size = packed.memory_size();
        assert!(packed.json().len() > 1600 && packed.memory_size() > packed_size + 1600, "it was unpacked");

        let computed = ComputedIndexes::new(vec!["team".to_owned()], HostMemory::default());
        computed.set(&packed, values(&[&["red"]])).expect("room");
        let kept = || computed.contents.read().objects[packed.key()].state.memory_size();
        assert_eq!(kept(), packed_size);
        let same = Object::from_json(pod_text("b")).expect("an object");
        assert!(computed.is_current(packed.key(), Some(&same)));
        assert_eq!(kept(), packed_size, "a comparison keeps nothing either");
    }

    #[test]
    fn values_are_charged_while_they_are_stored_and_left_out_without_room() {
        let memory = HostMemory::new(1 << 20);
        let computed = ComputedIndexes::new(vec!["team".to_owned()], memory.clone());
        let long = "r".repeat(300 << 10);
        computed.set(&object("a", "1"), values(&[&[&long]])).expect("room");
        let one = memory.used_by(HostMemoryKind::IndexValues);
        assert!(one > 2 * long.len());
        computed
            .set(&object("a", "2"), values(&[&[&long]]))
            .expect("room for another state of the same object");
        assert_eq!(memory.used(), one);
        let exceeded = computed.set(&object("b", "1"), values(&[&[&long]])).expect_err("no room");
        assert!(exceeded.to_string().contains("limits.hostMemory of 1 MiB"), "{exceeded}");
        assert_eq!(names(&all_keys(&computed, "team", &long)), ["a"]);
        let key = ObjectKey::cluster("b");
        assert!(
            computed.is_current(&key, Some(&object("b", "1"))),
            "the plugin is not asked again for the same state"
        );
        computed.remove(&ObjectKey::cluster("a"));
        assert_eq!(memory.used(), 0);
        computed.set(&object("b", "2"), values(&[&["short"]])).expect("room");
        assert_eq!(names(&all_keys(&computed, "team", "short")), ["b"]);
        drop(computed);
        assert_eq!(memory.used(), 0);
    }
}
