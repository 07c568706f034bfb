//! What makes two list items the same.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fieldset::{self, Step};
use crate::schema::{ListType, SchemaRef, Type, default_of, field};

/// How a place merges.
#[derive(Clone, Copy, Debug)]
pub(super) enum Merging<'a> {
    /// One value: scalars, atomic lists and maps, lists without a schema.
    Leaf,
    /// An object whose fields merge one by one.
    Fields,
    /// A list whose items merge by identity.
    Items(&'a ListType),
}

/// How `value` merges where `schema` describes it. What no schema describes merges as far as JSON tells: objects by
/// field, lists as a whole.
pub(super) fn merging<'a>(schema: Option<SchemaRef<'a>>, value: &Value) -> Merging<'a> {
    let node = schema.map(SchemaRef::node);
    match value {
        Value::Object(_) if node.is_some_and(|node| node.map_atomic) => Merging::Leaf,
        Value::Object(_) => Merging::Fields,
        Value::Array(_) => match node {
            Some(node) if node.ty == Type::Array && node.list_type != ListType::Atomic => {
                Merging::Items(&node.list_type)
            }
            _ => Merging::Leaf,
        },
        _ => Merging::Leaf,
    }
}

/// The step that identifies `item` in a list of that type.
pub(super) fn step(list_type: &ListType, items: Option<SchemaRef<'_>>, item: &Value) -> Step {
    match list_type {
        ListType::Map(names) => fieldset::keys(&key_values(names, items, item)),
        ListType::Set | ListType::Atomic => fieldset::value(item),
    }
}

fn key_values<'a>(
    names: &'a [String],
    items: Option<SchemaRef<'_>>,
    item: &Value,
) -> BTreeMap<&'a str, Value> {
    let value = |name: &str| item.get(name).cloned().or_else(|| default_of(items?, name));
    names.iter().filter_map(|name| Some((name.as_str(), value(name)?))).collect()
}

/// Checks that the items of all list maps in an applied configuration have their keys, and have them once.
///
/// # Errors
/// The text that Kubernetes answers with.
pub(super) fn check_keys(schema: SchemaRef<'_>, value: &Value, path: &str) -> Result<(), String> {
    match value {
        Value::Object(object) => {
            for (name, child) in object {
                if let Some(of_child) = schema.field(name) {
                    check_keys(of_child, child, &format!("{path}.{name}"))?;
                }
            }
            Ok(())
        }
        Value::Array(list) => {
            let items = schema.items();
            let mut seen = Vec::with_capacity(list.len());
            for (index, item) in list.iter().enumerate() {
                if let Merging::Items(list_type) = merging(Some(schema), value) {
                    if let ListType::Map(names) = list_type
                        && let Some(name) = missing_key(names, items, item)
                    {
                        let at = field::index(path, index);
                        return Err(format!(
                            "failed to create typed patch object: {at}: element {index}: associative list with keys \
                             has an element that omits key field {name:?} (and doesn't have default value)"
                        ));
                    }
                    let step = step(list_type, items, item);
                    if seen.contains(&step) {
                        let entry = step.split_once(':').map_or("", |(_, rest)| rest);
                        return Err(format!(
                            "failed to create typed patch object: {path}: duplicate entries for key {entry}"
                        ));
                    }
                    seen.push(step);
                }
                if let Some(items) = items {
                    check_keys(items, item, &field::index(path, index))?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn missing_key<'a>(names: &'a [String], items: Option<SchemaRef<'_>>, item: &Value) -> Option<&'a String> {
    let present = key_values(names, items, item);
    names.iter().find(|name| !present.contains_key(name.as_str()))
}
