//! The typed merge of an applied configuration into the live object.

use pilothouse_model::hash::HashMap;
use serde_json::{Map, Value};

use super::identity::{MergeKind, child_schema, item_element, merge_kind};
use crate::schema::SchemaRef;

/// Returns `live` with everything that `config` sets. Where both have a value, that of `config` wins.
pub(super) fn merge(schema: Option<SchemaRef<'_>>, live: &Value, config: &Value) -> Value {
    match (merge_kind(schema, live), merge_kind(schema, config), live, config) {
        (MergeKind::Fields, MergeKind::Fields, Value::Object(old), Value::Object(new)) => {
            let mut merged: Map<String, Value> = old.clone();
            for (name, child) in new {
                let member_schema = child_schema(schema, name);
                let value = match old.get(name) {
                    Some(old_child) => merge(member_schema, old_child, child),
                    None => child.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (MergeKind::Items(list_type), MergeKind::Items(_), Value::Array(old), Value::Array(new)) => {
            let item_schema = schema.and_then(SchemaRef::items);
            let elements = |list: &[Value]| -> Vec<_> {
                list.iter().map(|item| item_element(list_type, item_schema, item)).collect()
            };
            Value::Array(merge_items(item_schema, (old, &elements(old)), (new, &elements(new))))
        }
        _ => config.clone(),
    }
}

/// Merges two lists of items, each with the items' path elements. The result has the order of `new`; items that only
/// `old` has stay before the shared item that they preceded.
fn merge_items(
    schema: Option<SchemaRef<'_>>,
    (old, old_elements): (&[Value], &[String]),
    (new, new_elements): (&[Value], &[String]),
) -> Vec<Value> {
    let mut merged = Vec::with_capacity(old.len().max(new.len()));
    let mut of_new: HashMap<&str, usize> = HashMap::default();
    for (index, element) in new_elements.iter().enumerate() {
        of_new.entry(element).or_insert(index);
    }
    // As in structured-merge-diff, an item replaces several old ones with its element, and is not merged with any of them.
    let mut of_old: HashMap<&str, Option<usize>> = HashMap::default();
    for (index, element) in old_elements.iter().enumerate() {
        of_old.entry(element).and_modify(|found| *found = None).or_insert(Some(index));
    }
    let (mut left, mut right) = (0, 0);
    loop {
        let position = old_elements.get(left).map(|element| of_new.get(element.as_str()).copied());
        match (position, new_elements.get(right)) {
            (Some(None), _) => {
                merged.push(old[left].clone());
                left += 1;
            }
            (Some(Some(position)), _) if position < right => left += 1,
            (_, Some(element)) => {
                let counterpart = of_old.get(element.as_str()).copied().flatten();
                merged.push(
                    counterpart
                        .map_or_else(|| new[right].clone(), |index| merge(schema, &old[index], &new[right])),
                );
                right += 1;
            }
            (Some(_), None) => left += 1,
            (None, None) => return merged,
        }
    }
}
