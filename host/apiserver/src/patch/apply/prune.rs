//! Removal of the fields that a manager applied before and no longer applies.

use serde_json::Value;

use super::fieldset::FieldSet;
use super::identity::{MergeKind, child_schema, item_element, merge_kind};
use crate::schema::SchemaRef;

/// Removes from `merged` the fields of `last`, the manager's former field set, unless `owned`, the fields that all
/// managers own now, has the field or one below it. As in structured-merge-diff, an item of a list or a map is removed with the fields of it that
/// others own if nobody owns the item itself.
pub(super) fn prune(schema: SchemaRef<'_>, merged: &mut Value, last: &FieldSet, owned: &FieldSet) {
    prune_children(Some(schema), merged, last, Some(owned));
}

fn prune_children(
    schema: Option<SchemaRef<'_>>,
    value: &mut Value,
    last: &FieldSet,
    owned: Option<&FieldSet>,
) {
    match (merge_kind(schema, value), value) {
        (MergeKind::Fields, Value::Object(object)) => {
            for (element, last) in last.children() {
                let Some(name) = element.strip_prefix("f:") else { continue };
                let Some(child) = object.get_mut(name) else { continue };
                let is_declared = schema.is_some_and(|schema| schema.node().properties.contains_key(name));
                let owned = owned.and_then(|owned| owned.child(element));
                match owned.filter(|owned| is_declared || !loses_item(last, owned)) {
                    Some(owned) => {
                        let member_schema = child_schema(schema, name);
                        prune_children(member_schema, child, last, Some(owned));
                    }
                    None => drop(object.remove(name)),
                }
            }
        }
        (MergeKind::Items(list_type), Value::Array(list)) => {
            let item_schema = schema.and_then(SchemaRef::items);
            list.retain_mut(|item| {
                let element = item_element(list_type, item_schema, item);
                let Some(last) = last.child(&element) else { return true };
                let owned = owned.and_then(|owned| owned.child(&element));
                let Some(owned) = owned.filter(|owned| !loses_item(last, owned)) else { return false };
                prune_children(item_schema, item, last, Some(owned));
                true
            });
        }
        _ => {}
    }
}

/// Whether an item was the manager's, and is no longer anybody's.
fn loses_item(last: &FieldSet, owned: &FieldSet) -> bool {
    last.is_member() && !owned.is_member()
}
