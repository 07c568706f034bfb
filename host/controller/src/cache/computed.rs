//! Indexes whose values the plugin computes: what is known of each object. The informer has no part in them, because a
//! guest would hold it up, and no other plugin sees them.
//!
//! The values are charged to the plugin's [`HostMemory`] for as long as they are known.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::RwLock;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryExceeded, HostMemoryKind};

/// The computed indexes of one watch.
#[derive(Debug, Default)]
pub(crate) struct Computed {
    names: Vec<String>,
    known: RwLock<Known>,
    memory: HostMemory,
}

/// What one value of one object takes, apart from its text: in the entry, and in the tree where it is found.
const VALUE_BYTES: usize = 160;

#[derive(Debug, Default)]
struct Known {
    objects: HashMap<ObjectKey, Entry>,
    /// Per index, in the order of the names: who has which value.
    by_value: Vec<BTreeMap<String, BTreeSet<ObjectKey>>>,
}

/// What the plugin answered about one state of one object.
#[derive(Debug)]
struct Entry {
    state: Object,
    /// Per index, in the order of the names.
    values: Vec<Vec<String>>,
    /// Absent where there are no values.
    _charge: Option<HostMemoryCharge>,
}

impl Computed {
    pub(crate) fn new(names: Vec<String>, memory: HostMemory) -> Self {
        let by_value = names.iter().map(|_| BTreeMap::new()).collect();
        Self { names, known: RwLock::new(Known { objects: HashMap::new(), by_value }), memory }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether the watch has no computed index.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether the values of this very state are known; of an absent object, whether it is in no index.
    pub(crate) fn is_current(&self, key: &ObjectKey, state: Option<&Object>) -> bool {
        match (self.known.read().objects.get(key), state) {
            (None, None) => true,
            // By the bytes: a resync or a relist brings the same state as another object.
            (Some(entry), Some(state)) => entry.state.ptr_eq(state) || entry.state.json() == state.json(),
            _ => false,
        }
    }

    /// Puts the object where its values say, and nowhere else; one list of values per index, in the order of the names. Where the
    /// plugin's host memory has no room for them, the object is known to have none.
    pub(crate) fn set(&self, state: Object, mut values: Vec<Vec<String>>) -> Result<(), HostMemoryExceeded> {
        let mut known = self.known.write();
        // First, because what it took is free for what is put in.
        known.remove(state.key());
        let (mut charge, mut outcome) = (None, Ok(()));
        match bytes(&values) {
            0 => {}
            bytes => match self.memory.try_charge(HostMemoryKind::IndexValues, bytes) {
                Ok(made) => charge = Some(made),
                Err(exceeded) => {
                    values.iter_mut().for_each(|values| *values = Vec::new());
                    outcome = Err(exceeded);
                }
            },
        }
        for (by_value, values) in known.by_value.iter_mut().zip(&values) {
            for value in values {
                by_value.entry(value.clone()).or_default().insert(state.key().clone());
            }
        }
        known.objects.insert(state.key().clone(), Entry { state, values, _charge: charge });
        outcome
    }

    /// Takes an object out that is gone.
    pub(crate) fn remove(&self, key: &ObjectKey) {
        self.known.write().remove(key);
    }

    /// The objects with this value, in order.
    pub(crate) fn keys(&self, index: &str, value: &str) -> Vec<ObjectKey> {
        let known = self.known.read();
        let keys = self.position(index).and_then(|position| known.by_value[position].get(value));
        keys.map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    /// The values that objects have of those that are there, in order.
    pub(crate) fn values(&self, index: &str, is_there: impl Fn(&ObjectKey) -> bool) -> Vec<String> {
        let known = self.known.read();
        let Some(position) = self.position(index) else { return Vec::new() };
        let values = known.by_value[position].iter().filter(|(_, keys)| keys.iter().any(&is_there));
        values.map(|(value, _)| value.clone()).collect()
    }

    /// All objects whose values are known.
    pub(crate) fn objects(&self) -> Vec<ObjectKey> {
        self.known.read().objects.keys().cloned().collect()
    }

    fn position(&self, index: &str) -> Option<usize> {
        self.names.iter().position(|name| name == index)
    }
}

impl Known {
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

/// What values take, more or less: each text is there twice.
fn bytes(values: &[Vec<String>]) -> usize {
    values.iter().flatten().map(|value| VALUE_BYTES + 2 * value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, version: &str) -> Object {
        Object::from_json(format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#
        ))
        .expect("an object")
    }

    fn names(keys: &[ObjectKey]) -> Vec<&str> {
        keys.iter().map(ObjectKey::name).collect()
    }

    fn values(values: &[&[&str]]) -> Vec<Vec<String>> {
        values.iter().map(|values| values.iter().map(ToString::to_string).collect()).collect()
    }

    #[test]
    fn b22_an_update_moves_an_object_between_values_and_an_empty_value_is_dropped() {
        let computed = Computed::new(vec!["team".to_owned(), "zone".to_owned()], HostMemory::default());
        computed.set(object("a", "1"), values(&[&["red", "blue"], &["z"]])).expect("room");
        computed.set(object("b", "1"), values(&[&["red"], &[]])).expect("room");
        assert_eq!(names(&computed.keys("team", "red")), ["a", "b"]);
        assert_eq!(computed.values("team", |_| true), ["blue", "red"]);
        computed.set(object("a", "2"), values(&[&["green"], &["z"]])).expect("room");
        assert_eq!(names(&computed.keys("team", "red")), ["b"]);
        assert_eq!(computed.values("team", |_| true), ["green", "red"]);
        assert_eq!(computed.values("zone", |_| true), ["z"]);
        computed.remove(&ObjectKey::cluster("a"));
        assert_eq!(computed.values("team", |_| true), ["red"]);
        assert!(computed.values("zone", |_| true).is_empty() && computed.keys("zone", "z").is_empty());
    }

    #[test]
    fn values_are_kept_for_the_state_that_they_are_of() {
        let computed = Computed::new(vec!["team".to_owned()], HostMemory::default());
        let key = ObjectKey::cluster("a");
        assert!(computed.is_current(&key, None), "an absent object is in no index");
        assert!(!computed.is_current(&key, Some(&object("a", "1"))));
        computed.set(object("a", "1"), values(&[&[]])).expect("room");
        assert!(
            computed.is_current(&key, Some(&object("a", "1"))),
            "the same bytes once more, without values too"
        );
        assert!(!computed.is_current(&key, Some(&object("a", "2"))));
        assert!(!computed.is_current(&key, None), "it is gone, and has to be taken out");
    }

    #[test]
    fn values_are_charged_while_they_are_known_and_left_out_where_there_is_no_room() {
        let memory = HostMemory::new(1 << 20);
        let computed = Computed::new(vec!["team".to_owned()], memory.clone());
        let long = "r".repeat(300 << 10);
        computed.set(object("a", "1"), values(&[&[&long]])).expect("room");
        let one = memory.used_by(HostMemoryKind::IndexValues);
        assert!(one > 2 * long.len());
        computed.set(object("a", "2"), values(&[&[&long]])).expect("room for another state of the same");
        assert_eq!(memory.used(), one);
        let exceeded = computed.set(object("b", "1"), values(&[&[&long]])).expect_err("no room");
        assert!(exceeded.to_string().contains("limits.hostMemory of 1 MiB"), "{exceeded}");
        assert_eq!(names(&computed.keys("team", &long)), ["a"]);
        let key = ObjectKey::cluster("b");
        assert!(
            computed.is_current(&key, Some(&object("b", "1"))),
            "the plugin is not asked again for the same state"
        );
        computed.remove(&ObjectKey::cluster("a"));
        assert_eq!(memory.used(), 0);
        computed.set(object("b", "2"), values(&[&["short"]])).expect("room");
        assert_eq!(names(&computed.keys("team", "short")), ["b"]);
        drop(computed);
        assert_eq!(memory.used(), 0);
    }
}
