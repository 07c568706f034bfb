//! Correlates the items of a list with those of its old value, like Kubernetes' `CorrelatedObject`
//! (`k8s.io/apiserver/pkg/cel/common`).

use pilothouse_model::hash::HashMap;
use serde_json::Value;

use super::node::{ListType, SchemaRef};

/// The items of a list's old value, by their keys. Only items of lists of type `map` can be correlated: items of sets
/// do not change, and items of atomic lists have no identity.
pub(super) struct OldItems<'a> {
    keys: &'a [String],
    /// The first item of each key, with its index.
    by_key: HashMap<Value, (usize, &'a Value)>,
}

impl<'a> OldItems<'a> {
    /// Reads the items of `old`, the list's old value.
    pub(super) fn new(list_type: &'a ListType, old: Option<&'a Value>) -> Self {
        let ListType::Map(keys) = list_type else { return Self { keys: &[], by_key: HashMap::default() } };
        let items = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut by_key = HashMap::with_capacity_and_hasher(items.len(), Default::default());
        for (index, item) in items.iter().enumerate() {
            by_key.entry(key_fields(item, keys)).or_insert((index, item));
        }
        Self { keys, by_key }
    }

    /// Returns the old item with the same keys as `item`, and its index.
    pub(super) fn find(&self, item: &Value) -> Option<(usize, &'a Value)> {
        if self.by_key.is_empty() { None } else { self.by_key.get(&key_fields(item, self.keys)).copied() }
    }
}

/// Returns the key fields of an item as an object.
pub(super) fn key_fields(item: &Value, keys: &[String]) -> Value {
    let fields = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(fields.collect())
}

/// Whether a value equals its old value. As in Kubernetes, the order of the items of a list of type `map` does not matter.
pub(super) fn is_unchanged(new: &Value, old: &Value, schema: SchemaRef<'_>) -> bool {
    new == old || is_reordered(new, old, schema)
}

/// Whether a value equals its old value as in [`is_unchanged`]. Looks at each value once: values that equal each other are not compared before.
fn is_reordered(new: &Value, old: &Value, schema: SchemaRef<'_>) -> bool {
    match (new, old) {
        (Value::Object(members), Value::Object(old)) => {
            members.len() == old.len()
                && members.iter().all(|(name, child)| {
                    old.get(name).is_some_and(|old| match schema.field(name) {
                        Some(schema) => is_reordered(child, old, schema),
                        None => child == old,
                    })
                })
        }
        (Value::Array(items), Value::Array(old_items)) => {
            let list_type = &schema.node().list_type;
            let (ListType::Map(_), Some(schema)) = (list_type, schema.items()) else { return new == old };
            let found = OldItems::new(list_type, Some(old));
            items.len() == old_items.len()
                && items
                    .iter()
                    .all(|item| found.find(item).is_some_and(|(_, old)| is_reordered(item, old, schema)))
        }
        _ => new == old,
    }
}
