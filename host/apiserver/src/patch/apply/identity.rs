//! How values merge, and the identity of list items.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fieldset::{self, PathElement};
use crate::schema::{ListType, SchemaRef, Type, default_of, field};

/// How a value merges.
#[derive(Clone, Copy, Debug)]
pub(super) enum MergeKind<'a> {
    /// As a whole: scalars, atomic lists and maps, and lists without a schema.
    Leaf,
    /// Field by field.
    Fields,
    /// Item by item, matched by identity.
    Items(&'a ListType),
}

/// Returns how `value`, which `schema` describes, merges. Without a schema, objects merge by field and lists as a
/// whole.
pub(super) fn merge_kind<'a>(schema: Option<SchemaRef<'a>>, value: &Value) -> MergeKind<'a> {
    let node = schema.map(SchemaRef::node);
    match value {
        Value::Object(_) if node.is_some_and(|node| node.map_atomic) => MergeKind::Leaf,
        Value::Object(_) => MergeKind::Fields,
        Value::Array(_) => match node {
            Some(node) if node.ty == Type::Array && node.list_type != ListType::Atomic => {
                MergeKind::Items(&node.list_type)
            }
            _ => MergeKind::Leaf,
        },
        _ => MergeKind::Leaf,
    }
}

/// Returns the path element that identifies `item` in a list of type `list_type`.
pub(super) fn item_element(
    list_type: &ListType,
    item_schema: Option<SchemaRef<'_>>,
    item: &Value,
) -> PathElement {
    match list_type {
        ListType::Map(names) => fieldset::key_element(&key_values(names, item_schema, item)),
        ListType::Set | ListType::Atomic => fieldset::value_element(item),
    }
}

/// Returns the key fields of `item`, with the defaults of absent ones.
fn key_values<'a>(
    names: &'a [String],
    item_schema: Option<SchemaRef<'_>>,
    item: &Value,
) -> BTreeMap<&'a str, Value> {
    let value = |name: &str| item.get(name).cloned().or_else(|| default_of(item_schema?, name));
    names.iter().filter_map(|name| Some((name.as_str(), value(name)?))).collect()
}

/// Checks that the items of all lists of type `map` in an applied configuration have their keys, and that no two items
/// of a list have the same identity.
///
/// # Errors
/// The message of kube-apiserver.
pub(super) fn check_keys(schema: SchemaRef<'_>, value: &Value, path: &str) -> Result<(), String> {
    match value {
        Value::Object(object) => {
            for (name, child) in object {
                if let Some(child_schema) = schema.field(name) {
                    check_keys(child_schema, child, &format!("{path}.{name}"))?;
                }
            }
            Ok(())
        }
        Value::Array(list) => {
            let item_schema = schema.items();
            let mut elements = Vec::with_capacity(list.len());
            for (index, item) in list.iter().enumerate() {
                if let MergeKind::Items(list_type) = merge_kind(Some(schema), value) {
                    if let ListType::Map(names) = list_type
                        && let Some(name) = missing_key(names, item_schema, item)
                    {
                        let at = field::index(path, index);
                        return Err(format!(
                            "failed to create typed patch object: {at}: element {index}: associative list with keys \
                             has an element that omits key field {name:?} (and doesn't have default value)"
                        ));
                    }
                    let element = item_element(list_type, item_schema, item);
                    if elements.contains(&element) {
                        let key = element.split_once(':').map_or("", |(_, key)| key);
                        return Err(format!(
                            "failed to create typed patch object: {path}: duplicate entries for key {key}"
                        ));
                    }
                    elements.push(element);
                }
                if let Some(item_schema) = item_schema {
                    check_keys(item_schema, item, &field::index(path, index))?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn missing_key<'a>(
    names: &'a [String],
    item_schema: Option<SchemaRef<'_>>,
    item: &Value,
) -> Option<&'a String> {
    let present = key_values(names, item_schema, item);
    names.iter().find(|name| !present.contains_key(name.as_str()))
}
