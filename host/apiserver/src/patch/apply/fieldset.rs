//! Field sets, and their serialized form in `managedFields` (`fieldsV1`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// An element of a path as in `fieldsV1` (`fieldpath.PathElement` of structured-merge-diff): `f:name`,
/// `k:{"name":"x"}`, `v:"x"` or `i:0`.
pub(super) type PathElement = String;

/// A set of field paths, stored as a trie.
///
/// The set may have a path together with paths below it: a list item that a manager added is a member, and so are the
/// fields of the item that the manager set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Whether the path of this trie node is in the set.
    is_member: bool,
    children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// Returns the set with only the empty path: a field without fields below it, as [`FieldSet::add`] takes it.
    pub(super) fn leaf() -> Self {
        Self { is_member: true, children: BTreeMap::new() }
    }

    /// Returns whether the set has no path.
    pub fn is_empty(&self) -> bool {
        !self.is_member && self.children.values().all(Self::is_empty)
    }

    /// Returns whether the set has the empty path.
    pub(super) fn is_member(&self) -> bool {
        self.is_member
    }

    /// Returns the set below `element`, if there is one.
    pub(super) fn child(&self, element: &str) -> Option<&Self> {
        self.children.get(element)
    }

    /// Returns the first path elements of the set, each with the set below it.
    pub(super) fn children(&self) -> impl Iterator<Item = (&PathElement, &Self)> {
        self.children.iter()
    }

    /// Adds the paths of `child`, each prefixed with `element`.
    pub(super) fn add(&mut self, element: PathElement, child: Self) {
        if child.is_empty() {
            return;
        }
        match self.children.entry(element) {
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let union = entry.get().union(&child);
                entry.insert(union);
            }
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(child);
            }
        }
    }

    /// Adds the empty path.
    pub(super) fn insert_self(&mut self) {
        self.is_member = true;
    }

    /// Returns the paths that are in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.is_member |= other.is_member;
        for (element, theirs) in &other.children {
            match result.children.get_mut(element) {
                Some(ours) => *ours = ours.union(theirs),
                None => drop(result.children.insert(element.clone(), theirs.clone())),
            }
        }
        result
    }

    /// Returns the paths that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, ours)| {
            let child = ours.intersection(other.children.get(element)?);
            (!child.is_empty()).then(|| (element.clone(), child))
        });
        Self { is_member: self.is_member && other.is_member, children: children.collect() }
    }

    /// Returns the paths of this set that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, ours)| {
            let child = match other.children.get(element) {
                Some(theirs) => ours.difference(theirs),
                None => ours.clone(),
            };
            (!child.is_empty()).then(|| (element.clone(), child))
        });
        Self { is_member: self.is_member && !other.is_member, children: children.collect() }
    }

    /// Removes `element` and everything below it.
    pub(super) fn remove(&mut self, element: &str) {
        self.children.remove(element);
    }

    /// Removes the path `element` itself and keeps the paths below it.
    pub(super) fn remove_member(&mut self, element: &str) {
        if let Some(child) = self.children.get_mut(element) {
            child.is_member = false;
            if child.is_empty() {
                self.children.remove(element);
            }
        }
    }

    /// Returns the paths that start with `element`.
    pub(super) fn only(mut self, element: &str) -> Self {
        self.children.retain(|name, _| name == element);
        self.is_member = false;
        self
    }

    /// Drops path elements without members. Serialized, they would be empty objects, which are members.
    pub(super) fn without_empty(mut self) -> Self {
        self.children.retain(|_, child| !child.is_empty());
        self
    }

    pub(super) fn child_mut(&mut self, element: &str) -> Option<&mut Self> {
        self.children.get_mut(element)
    }

    /// Returns all paths as Kubernetes prints them: `.spec.containers[name="a"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        // The fields of this level come before those of deeper levels, as in Kubernetes.
        for (element, child) in &self.children {
            if child.is_member {
                paths.push(format!("{prefix}{}", display(element)));
            }
        }
        for (element, child) in &self.children {
            child.collect_paths(&format!("{prefix}{}", display(element)), paths);
        }
    }

    /// Returns the set as `fieldsV1`.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        if self.is_member && !self.children.is_empty() {
            object.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            object.insert(element.clone(), child.to_json());
        }
        Value::Object(object)
    }

    /// Reads `fieldsV1`. Path elements of unknown form are dropped, as in Kubernetes.
    pub fn from_json(value: &Value) -> Self {
        let mut set = Self::read(value);
        // An empty object is the empty set at the root, and a member below it.
        set.is_member = false;
        set
    }

    fn read(value: &Value) -> Self {
        let Some(object) = value.as_object() else { return Self::default() };
        let mut set = Self { is_member: object.is_empty(), children: BTreeMap::new() };
        for (element, child) in object {
            if element == "." {
                set.is_member = true;
            } else if let Some(element) = canonical(element) {
                set.children.insert(element, Self::read(child));
            }
        }
        set
    }
}

/// Returns the path element of a named field.
pub(super) fn field_element(name: &str) -> PathElement {
    ["f:", name].concat()
}

/// Returns the path element of an item of a set.
pub(super) fn value_element(item: &Value) -> PathElement {
    format!("v:{item}")
}

/// Returns the path element of an item of a list of type `map`. The keys are sorted, so that equal items have equal
/// elements.
pub(super) fn key_element(keys: &BTreeMap<&str, Value>) -> PathElement {
    let json = serde_json::to_string(keys).unwrap_or_default();
    format!("k:{json}")
}

/// Returns the path element in the spelling of the functions above; `None` if its form is unknown.
fn canonical(element: &str) -> Option<PathElement> {
    let (form, rest) = element.split_once(':')?;
    match form {
        "f" => Some(element.to_owned()),
        "i" => rest.parse::<u64>().ok().map(|_| element.to_owned()),
        "v" => serde_json::from_str::<Value>(rest).ok().map(|item| value_element(&item)),
        "k" => {
            let object: BTreeMap<String, Value> = serde_json::from_str(rest).ok()?;
            Some(key_element(&object.iter().map(|(key, value)| (key.as_str(), value.clone())).collect()))
        }
        _ => None,
    }
}

/// Returns a path element as Kubernetes prints it: `.name`, `[name="x"]`, `[="x"]` or `[0]`.
pub(super) fn display(element: &str) -> String {
    let (form, rest) = element.split_once(':').unwrap_or((element, ""));
    match form {
        "k" => {
            let object: BTreeMap<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let pairs: Vec<_> = object.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", pairs.join(","))
        }
        "v" => format!("[={rest}]"),
        "i" => format!("[{rest}]"),
        _ => format!(".{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(value: &Value) -> FieldSet {
        FieldSet::from_json(value)
    }

    #[test]
    fn fields_v1_round_trips() {
        let stored = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:list": {"k:{\"name\":\"a\",\"port\":80}": {".": {}, "f:x": {}}}, "f:set": {"v:\"b\"": {}}}
        });
        assert_eq!(set(&stored).to_json(), stored);
        assert_eq!(
            set(&stored).paths(),
            [
                ".metadata.labels",
                ".metadata.labels.app",
                r#".spec.list[name="a",port=80]"#,
                r#".spec.list[name="a",port=80].x"#,
                r#".spec.set[="b"]"#
            ]
        );
        assert!(set(&json!({})).is_empty());
    }

    #[test]
    fn order_of_keys_does_not_matter() {
        let one = set(&json!({"k:{\"a\":1,\"b\":2}": {}}));
        let other = set(&json!({"k:{\"b\":2, \"a\":1}": {}}));
        assert_eq!(one, other);
    }

    #[test]
    fn set_operations_distinguish_a_member_from_the_members_below_it() {
        let both = set(&json!({"f:a": {".": {}, "f:b": {}}}));
        let below = set(&json!({"f:a": {"f:b": {}}}));
        let itself = set(&json!({"f:a": {}}));
        assert_eq!(both.difference(&below), itself);
        assert_eq!(both.difference(&itself), below);
        assert_eq!(below.union(&itself), both);
        assert_eq!(both.intersection(&below), below);
        assert!(below.intersection(&itself).is_empty());
        assert!(both.difference(&both).is_empty());
    }
}
