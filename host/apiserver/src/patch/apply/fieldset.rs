//! Sets of fields, in the form in which `managedFields` stores them (`fieldsV1`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One step of a path, spelled as in `fieldsV1`: `f:name`, `k:{"name":"x"}`, `v:"x"` or `i:0`.
pub(super) type Step = String;

/// A set of paths, kept as a trie.
///
/// A path may be in the set together with paths below it: a list item that a manager added is a member, and so are the
/// item's fields that the manager set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Whether the path that leads here is itself in the set.
    member: bool,
    children: BTreeMap<Step, FieldSet>,
}

impl FieldSet {
    /// The set of the empty path alone: what [`FieldSet::add`] places at a field.
    pub(super) fn leaf() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(Self::is_empty)
    }

    /// The set below `step`, if there is anything.
    pub(super) fn child(&self, step: &str) -> Option<&Self> {
        self.children.get(step)
    }

    /// Steps from here, with the sets below them.
    pub(super) fn children(&self) -> impl Iterator<Item = (&Step, &Self)> {
        self.children.iter()
    }

    /// Puts the paths of `below`, each behind `step`, into the set.
    pub(super) fn add(&mut self, step: Step, below: Self) {
        if below.is_empty() {
            return;
        }
        match self.children.entry(step) {
            std::collections::btree_map::Entry::Occupied(mut present) => {
                let union = present.get().union(&below);
                present.insert(union);
            }
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(below);
            }
        }
    }

    /// Makes the path that leads here a member.
    pub(super) fn mark(&mut self) {
        self.member = true;
    }

    /// The paths that are in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.member |= other.member;
        for (step, theirs) in &other.children {
            match result.children.get_mut(step) {
                Some(ours) => *ours = ours.union(theirs),
                None => drop(result.children.insert(step.clone(), theirs.clone())),
            }
        }
        result
    }

    /// The paths that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let both = self.children.iter().filter_map(|(step, ours)| {
            let below = ours.intersection(other.children.get(step)?);
            (!below.is_empty()).then(|| (step.clone(), below))
        });
        Self { member: self.member && other.member, children: both.collect() }
    }

    /// The paths that are in this set and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let left = self.children.iter().filter_map(|(step, ours)| {
            let below = match other.children.get(step) {
                Some(theirs) => ours.difference(theirs),
                None => ours.clone(),
            };
            (!below.is_empty()).then(|| (step.clone(), below))
        });
        Self { member: self.member && !other.member, children: left.collect() }
    }

    /// The set without `step` and all below it.
    pub(super) fn remove(&mut self, step: &str) {
        self.children.remove(step);
    }

    /// The set without the member `step`, keeping what is below it.
    pub(super) fn unmark(&mut self, step: &str) {
        if let Some(child) = self.children.get_mut(step) {
            child.member = false;
            if child.is_empty() {
                self.children.remove(step);
            }
        }
    }

    /// The set restricted to `step`.
    pub(super) fn only(mut self, step: &str) -> Self {
        self.children.retain(|name, _| name == step);
        self.member = false;
        self
    }

    /// The set without steps that lead to nothing, which would be read back as members.
    pub(super) fn without_empty(mut self) -> Self {
        self.children.retain(|_, child| !child.is_empty());
        self
    }

    pub(super) fn child_mut(&mut self, step: &str) -> Option<&mut Self> {
        self.children.get_mut(step)
    }

    /// All paths, as Kubernetes prints them: `.spec.containers[name="a"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        if self.member && !prefix.is_empty() {
            paths.push(prefix.to_owned());
        }
        for (step, child) in &self.children {
            child.collect(&format!("{prefix}{}", printed(step)), paths);
        }
    }

    /// The form that is stored.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        if self.member && !self.children.is_empty() {
            object.insert(".".into(), Value::Object(Map::new()));
        }
        for (step, child) in &self.children {
            object.insert(step.clone(), child.to_json());
        }
        Value::Object(object)
    }

    /// Reads the form that is stored. Steps of unknown form are dropped, as Kubernetes drops them.
    pub fn from_json(value: &Value) -> Self {
        let mut set = Self::read(value);
        // The empty object at the top is the empty set, further down it is a member.
        set.member = false;
        set
    }

    fn read(value: &Value) -> Self {
        let Some(object) = value.as_object() else { return Self::default() };
        let mut set = Self { member: object.is_empty(), children: BTreeMap::new() };
        for (step, below) in object {
            if step == "." {
                set.member = true;
            } else if let Some(step) = canonical(step) {
                set.children.insert(step, Self::read(below));
            }
        }
        set
    }
}

/// The step for a named field.
pub(super) fn field(name: &str) -> Step {
    format!("f:{name}")
}

/// The step for an item of a set.
pub(super) fn value(item: &Value) -> Step {
    format!("v:{item}")
}

/// The step for an item of a list map; keys are sorted, so that equal items have equal steps.
pub(super) fn keys(keys: &BTreeMap<&str, Value>) -> Step {
    let text = serde_json::to_string(keys).unwrap_or_default();
    format!("k:{text}")
}

fn canonical(step: &str) -> Option<Step> {
    let (form, rest) = step.split_once(':')?;
    match form {
        "f" => Some(step.to_owned()),
        "i" => rest.parse::<u64>().ok().map(|_| step.to_owned()),
        "v" => serde_json::from_str::<Value>(rest).ok().map(|item| value(&item)),
        "k" => {
            let object: BTreeMap<String, Value> = serde_json::from_str(rest).ok()?;
            Some(keys(&object.iter().map(|(key, value)| (key.as_str(), value.clone())).collect()))
        }
        _ => None,
    }
}

fn printed(step: &str) -> String {
    let (form, rest) = step.split_once(':').unwrap_or((step, ""));
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
    fn the_stored_form_is_read_and_written_back() {
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
    fn keys_compare_whatever_their_order() {
        let one = set(&json!({"k:{\"a\":1,\"b\":2}": {}}));
        let other = set(&json!({"k:{\"b\":2, \"a\":1}": {}}));
        assert_eq!(one, other);
    }

    #[test]
    fn set_operations_tell_members_from_what_is_below_them() {
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
