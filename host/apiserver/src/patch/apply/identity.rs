//! How values merge, and the identity of list items.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fieldset::{self, PathElement};
use crate::schema::{ListType, SchemaRef, Type, default_of, object_meta};

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

/// Returns the schema of a member. A custom resource and the resources within it have the metadata of Kubernetes, whatever the CRD says about it.
pub(super) fn child_schema<'a>(schema: Option<SchemaRef<'a>>, name: &str) -> Option<SchemaRef<'a>> {
    let schema = schema?;
    if is_metadata(schema, name) { Some(object_meta()) } else { schema.field(name) }
}

/// Whether a member is the metadata of a custom resource or of a resource within it.
pub(super) fn is_metadata(schema: SchemaRef<'_>, name: &str) -> bool {
    name == "metadata" && (schema.node().custom_root || schema.node().embedded)
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

/// Returns the first key field that `item` lacks, if it has no default.
pub(super) fn missing_key<'a>(
    names: &'a [String],
    item_schema: Option<SchemaRef<'_>>,
    item: &Value,
) -> Option<&'a String> {
    let present = key_values(names, item_schema, item);
    names.iter().find(|name| !present.contains_key(name.as_str()))
}
