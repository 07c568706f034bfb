//! Removal of what a manager applied before and applies no longer.

use serde_json::Value;

use super::fieldset::{self, FieldSet};
use super::identity::{Merging, merging, step};
use crate::schema::SchemaRef;

/// Removes from `merged` what is in `last`, the manager's former set, and neither in nor above anything in `owned`,
/// what all managers own now. What goes, goes with all that is below it: fields there belong to nobody.
pub(super) fn prune(schema: SchemaRef<'_>, merged: &mut Value, last: &FieldSet, owned: &FieldSet) {
    below(Some(schema), merged, last, Some(owned));
}

fn below(schema: Option<SchemaRef<'_>>, value: &mut Value, last: &FieldSet, owned: Option<&FieldSet>) {
    match (merging(schema, value), value) {
        (Merging::Fields, Value::Object(object)) => {
            for (step, last) in last.children() {
                let Some(name) = step.strip_prefix("f:") else { continue };
                let Some(child) = object.get_mut(name) else { continue };
                match owned.and_then(|owned| owned.child(step)) {
                    Some(owned) => {
                        let of_child = schema.and_then(|schema| schema.field(name));
                        below(of_child, child, last, Some(owned));
                    }
                    None => drop(object.remove(name)),
                }
            }
        }
        (Merging::Items(list_type), Value::Array(list)) => {
            let items = schema.and_then(SchemaRef::items);
            list.retain_mut(|item| {
                let step: fieldset::Step = step(list_type, items, item);
                let Some(last) = last.child(&step) else { return true };
                let Some(owned) = owned.and_then(|owned| owned.child(&step)) else { return false };
                below(items, item, last, Some(owned));
                true
            });
        }
        _ => {}
    }
}
