//! Merge keys and list types of the built-in kinds, which their generated schemas lack.

use std::collections::HashMap;

use super::node::PatchStrategy;

/// How a field merges under server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Merging {
    /// Lists are atomic, objects and maps granular.
    #[default]
    Default,
    /// A list of scalars that are their own keys.
    Set,
    /// A list of objects with these keys.
    Map(Vec<String>),
    /// An object or map that is one value.
    AtomicMap,
    /// An object whose definition is atomic elsewhere, but not here.
    GranularMap,
}

/// What the table says of one field.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) merging: Merging,
    pub(super) patch: PatchStrategy,
}

/// The table, by definition and property.
#[derive(Debug, Default)]
pub(super) struct Topology {
    entries: HashMap<&'static str, HashMap<&'static str, Entry>>,
}

impl Topology {
    /// The table for the built-in kinds.
    pub(super) fn built_in() -> Self {
        let mut entries: HashMap<_, HashMap<_, _>> = HashMap::new();
        for line in include_str!("topology.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_ascii_whitespace();
            if let (Some(definition), Some(property), Some(merging)) =
                (words.next(), words.next(), words.next())
            {
                let patch =
                    words.next().and_then(|word| word.strip_prefix("patch=")).map(patch).unwrap_or_default();
                let entry = Entry { merging: merging_of(merging), patch };
                entries.entry(definition).or_default().insert(property, entry);
            }
        }
        Self { entries }
    }

    /// What is said of `property` in `definition`; `.` is the definition itself.
    pub(super) fn get(&self, definition: &str, property: &str) -> Option<&Entry> {
        self.entries.get(definition)?.get(property)
    }
}

fn merging_of(word: &str) -> Merging {
    match word {
        "set" => Merging::Set,
        "atomic" => Merging::AtomicMap,
        "granular" => Merging::GranularMap,
        other => other
            .strip_prefix("map=")
            .map_or(Merging::Default, |keys| Merging::Map(keys.split(',').map(str::to_owned).collect())),
    }
}

fn patch(word: &str) -> PatchStrategy {
    let (strategies, key) = word.split_once(':').map_or((word, None), |(left, right)| (left, Some(right)));
    let has = |name: &str| strategies.split(',').any(|strategy| strategy == name);
    PatchStrategy {
        merge: has("merge"),
        replace: has("replace"),
        retain_keys: has("retainKeys"),
        merge_key: key.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_merge_keys_and_list_keys_apart() {
        let table = Topology::built_in();
        let ports = table.get("io.k8s.api.core.v1.Container", "ports").expect("ports are in the table");
        assert_eq!(ports.merging, Merging::Map(vec!["containerPort".into(), "protocol".into()]));
        assert_eq!(ports.patch.merge_key.as_deref(), Some("containerPort"));
        let volumes = table.get("io.k8s.api.core.v1.PodSpec", "volumes").expect("volumes are in the table");
        assert!(volumes.patch.merge && volumes.patch.retain_keys);
        let selector = table.get("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", ".");
        assert_eq!(selector.map(|entry| &entry.merging), Some(&Merging::AtomicMap));
    }

    #[test]
    fn every_line_of_the_table_is_understood() {
        for line in include_str!("topology.txt").lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            assert!(words.len() == 3 || words.len() == 4, "three or four words: {line}");
            let merging = merging_of(words[2]);
            assert!(merging != Merging::Default || words.len() == 4, "a line without effect: {line}");
        }
    }
}
