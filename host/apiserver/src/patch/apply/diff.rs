//! Which fields an object has, and which differ between two.

use serde_json::Value;

use super::fieldset::{self, FieldSet};
use super::identity::{Merging, merging, step};
use crate::schema::SchemaRef;

/// The fields that a write changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Fields that are there now and were not, or have another value.
    written: FieldSet,
    /// Fields that were there and are no longer.
    pub(super) removed: FieldSet,
}

impl Changes {
    /// Added and modified fields.
    pub(super) fn written(&self) -> FieldSet {
        self.written.clone()
    }

    /// Every field that changed in any way.
    pub(super) fn all(&self) -> FieldSet {
        self.written.union(&self.removed)
    }
}

/// The fields that `object` sets, which is what an apply of it owns.
pub(super) fn fields_of(schema: SchemaRef<'_>, object: &Value) -> FieldSet {
    fields(Some(schema), object)
}

fn fields(schema: Option<SchemaRef<'_>>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match (merging(schema, value), value) {
        (Merging::Fields, Value::Object(object)) => {
            for (name, child) in object {
                let of_child = schema.and_then(|schema| schema.field(name));
                let mut below = fields(of_child, child);
                // An entry of a map, and an empty object, are there whatever is below them.
                let named = schema.is_some_and(|schema| schema.node().properties.contains_key(name));
                if !named || child.as_object().is_some_and(serde_json::Map::is_empty) {
                    below.mark();
                }
                set.add(fieldset::field(name), below);
            }
        }
        (Merging::Items(list_type), Value::Array(list)) => {
            let items = schema.and_then(SchemaRef::items);
            for item in list {
                let mut below = fields(items, item);
                below.mark();
                set.add(step(list_type, items, item), below);
            }
        }
        _ => return FieldSet::leaf(),
    }
    set
}

/// The fields in which `old` and `new` differ.
pub(super) fn compare(schema: SchemaRef<'_>, old: &Value, new: &Value) -> Changes {
    let mut changes = Changes::default();
    differences(Some(schema), Some(old), Some(new), &mut changes);
    changes
}

fn differences(
    schema: Option<SchemaRef<'_>>,
    old: Option<&Value>,
    new: Option<&Value>,
    changes: &mut Changes,
) {
    match (old, new) {
        (Some(old), Some(new)) if old == new => {}
        (Some(old), Some(new)) => match (merging(schema, old), merging(schema, new), old, new) {
            (Merging::Fields, Merging::Fields, Value::Object(before), Value::Object(after)) => {
                let gone = before.keys().filter(|name| !after.contains_key(*name));
                for name in after.keys().chain(gone) {
                    let of_child = schema.and_then(|schema| schema.field(name));
                    descend(fieldset::field(name), of_child, before.get(name), after.get(name), changes);
                }
            }
            (Merging::Items(list_type), Merging::Items(_), Value::Array(before), Value::Array(after)) => {
                let items = schema.and_then(SchemaRef::items);
                let steps = |list: &[Value]| -> Vec<_> {
                    list.iter().map(|item| step(list_type, items, item)).collect()
                };
                let (old_steps, new_steps) = (steps(before), steps(after));
                for (name, item) in new_steps.iter().zip(after) {
                    let twin = old_steps.iter().position(|one| one == name).map(|index| &before[index]);
                    descend(name.clone(), items, twin, Some(item), changes);
                }
                for (name, item) in old_steps.iter().zip(before).filter(|(name, _)| !new_steps.contains(name))
                {
                    descend(name.clone(), items, Some(item), None, changes);
                }
            }
            _ => changes.written.mark(),
        },
        (None, Some(new)) => changes.written = everything(schema, new),
        (Some(old), None) => changes.removed = everything(schema, old),
        (None, None) => {}
    }
}

fn descend(
    step: fieldset::Step,
    schema: Option<SchemaRef<'_>>,
    old: Option<&Value>,
    new: Option<&Value>,
    changes: &mut Changes,
) {
    let mut below = Changes::default();
    differences(schema, old, new, &mut below);
    changes.written.add(step.clone(), below.written);
    changes.removed.add(step, below.removed);
}

/// The fields of a value that appeared or vanished as a whole: those within it, and itself, unless it is a plain
/// struct of a built-in type, which Go's zero value always contains.
fn everything(schema: Option<SchemaRef<'_>>, value: &Value) -> FieldSet {
    let mut set = match (merging(schema, value), value) {
        (Merging::Fields, Value::Object(object)) => {
            let mut set = FieldSet::default();
            for (name, child) in object {
                let of_child = schema.and_then(|schema| schema.field(name));
                set.add(fieldset::field(name), everything(of_child, child));
            }
            set
        }
        (Merging::Items(list_type), Value::Array(list)) => {
            let items = schema.and_then(SchemaRef::items);
            let mut set = FieldSet::default();
            for item in list {
                let mut below = everything(items, item);
                below.mark();
                set.add(step(list_type, items, item), below);
            }
            set
        }
        _ => FieldSet::leaf(),
    };
    let plain = schema.is_some_and(|schema| schema.node().definition.is_some());
    if !plain || set.is_empty() {
        set.mark();
    }
    set
}
