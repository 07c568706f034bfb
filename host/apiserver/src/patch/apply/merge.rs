//! The typed merge of an applied configuration into the live object.

use serde_json::{Map, Value};

use super::identity::{Merging, merging, step};
use crate::schema::SchemaRef;

/// `live` with everything that `config` sets. Where both have a value, that of `config` wins.
pub(super) fn merge(schema: Option<SchemaRef<'_>>, live: &Value, config: &Value) -> Value {
    match (merging(schema, live), merging(schema, config), live, config) {
        (Merging::Fields, Merging::Fields, Value::Object(old), Value::Object(new)) => {
            let mut merged: Map<String, Value> = old.clone();
            for (name, child) in new {
                let of_child = schema.and_then(|schema| schema.field(name));
                let value = match old.get(name) {
                    Some(before) => merge(of_child, before, child),
                    None => child.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Merging::Items(list_type), Merging::Items(_), Value::Array(old), Value::Array(new)) => {
            let items = schema.and_then(SchemaRef::items);
            let steps =
                |list: &[Value]| -> Vec<_> { list.iter().map(|item| step(list_type, items, item)).collect() };
            Value::Array(merge_items(items, (old, &steps(old)), (new, &steps(new))))
        }
        _ => config.clone(),
    }
}

/// Items keep the order of the configuration; those that only the live list has stay before the shared item that they
/// preceded.
fn merge_items(
    schema: Option<SchemaRef<'_>>,
    (old, old_steps): (&[Value], &[String]),
    (new, new_steps): (&[Value], &[String]),
) -> Vec<Value> {
    let mut merged = Vec::with_capacity(old.len().max(new.len()));
    let (mut left, mut right) = (0, 0);
    loop {
        match (old_steps.get(left), new_steps.get(right)) {
            (Some(step), _) if !new_steps.contains(step) => {
                merged.push(old[left].clone());
                left += 1;
            }
            (Some(step), _) if new_steps[..right].contains(step) => left += 1,
            (_, Some(step)) => {
                let twin = old_steps.iter().position(|one| one == step);
                merged
                    .push(twin.map_or_else(|| new[right].clone(), |at| merge(schema, &old[at], &new[right])));
                right += 1;
            }
            (Some(_), None) => left += 1,
            (None, None) => return merged,
        }
    }
}
