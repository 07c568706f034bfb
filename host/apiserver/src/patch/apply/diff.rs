//! The fields that an object sets, and those in which two objects differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fieldset::{self, FieldSet, PathElement};
use super::identity::{MergeKind, child_schema, is_metadata, item_element, merge_kind};
use super::zero_value;
use crate::schema::{ListType, SchemaRef};

/// The fields that a write changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Added and modified fields.
    written: FieldSet,
    /// Removed fields.
    pub(super) removed: FieldSet,
}

impl Changes {
    /// Returns the added and modified fields.
    pub(super) fn written(&self) -> FieldSet {
        self.written.clone()
    }

    /// Returns the added, modified and removed fields.
    pub(super) fn all(&self) -> FieldSet {
        self.written.union(&self.removed)
    }
}

/// Returns the fields that `object` sets, which an apply of it owns.
pub(super) fn fields_of(schema: SchemaRef<'_>, object: &Value) -> FieldSet {
    set_fields(Some(schema), object)
}

fn set_fields(schema: Option<SchemaRef<'_>>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match (merge_kind(schema, value), value) {
        (MergeKind::Fields, Value::Object(object)) => {
            for (name, child) in object {
                let child_schema = child_schema(schema, name);
                let mut child_set = set_fields(child_schema, child);
                // Map entries and empty objects are members themselves, in addition to the fields below them.
                let is_property = schema.is_some_and(|schema| {
                    schema.node().properties.contains_key(name) || is_metadata(schema, name)
                });
                if !is_property || child.as_object().is_some_and(serde_json::Map::is_empty) {
                    child_set.insert_self();
                }
                set.add(fieldset::field_element(name), child_set);
            }
        }
        (MergeKind::Items(list_type), Value::Array(list)) => {
            let item_schema = schema.and_then(SchemaRef::items);
            for (element, items) in items_by_element(list_type, item_schema, list) {
                let mut item_set = match items[..] {
                    [item] => set_fields(item_schema, item),
                    _ => FieldSet::leaf(),
                };
                item_set.insert_self();
                set.add(element, item_set);
            }
        }
        _ => return FieldSet::leaf(),
    }
    set
}

/// Returns the fields in which `old` and `new` differ.
pub(super) fn compare(schema: SchemaRef<'_>, old: &Value, new: &Value) -> Changes {
    let mut changes = Changes::default();
    compare_values(Some(schema), Some(old), Some(new), false, &mut changes);
    changes
}

/// Adds the differences of two values. `has_zero` says whether the value exists in Go even if it is absent.
fn compare_values(
    schema: Option<SchemaRef<'_>>,
    old: Option<&Value>,
    new: Option<&Value>,
    has_zero: bool,
    changes: &mut Changes,
) {
    match (old, new) {
        (Some(old), Some(new)) if old == new => {}
        (Some(old), Some(new)) => match (merge_kind(schema, old), merge_kind(schema, new), old, new) {
            (MergeKind::Fields, MergeKind::Fields, Value::Object(before), Value::Object(after)) => {
                let removed = before.keys().filter(|name| !after.contains_key(*name));
                for name in after.keys().chain(removed) {
                    if before.get(name) == after.get(name) {
                        continue;
                    }
                    let child_schema = child_schema(schema, name);
                    let element = fieldset::field_element(name);
                    if !before.contains_key(name) && zero_value::is_zero(schema, name, after.get(name)) {
                        continue;
                    }
                    let has_zero = zero_value::exists(schema, name, child_schema);
                    compare_child(
                        element,
                        child_schema,
                        (before.get(name), after.get(name)),
                        has_zero,
                        changes,
                    );
                }
            }
            (MergeKind::Items(list_type), MergeKind::Items(_), Value::Array(before), Value::Array(after)) => {
                let item_schema = schema.and_then(SchemaRef::items);
                let items = (
                    items_by_element(list_type, item_schema, before),
                    items_by_element(list_type, item_schema, after),
                );
                compare_items(item_schema, &items.0, &items.1, changes);
            }
            _ => changes.written.insert_self(),
        },
        (None, Some(new)) => changes.written = all_fields(schema, new, has_zero),
        (Some(old), None) => changes.removed = all_fields(schema, old, has_zero),
        (None, None) => {}
    }
}

/// The items of a list by their path elements. Several items with the same element are one value, as in structured-merge-diff.
type Items<'v> = BTreeMap<PathElement, Vec<&'v Value>>;

fn items_by_element<'v>(
    list_type: &ListType,
    item_schema: Option<SchemaRef<'_>>,
    list: &'v [Value],
) -> Items<'v> {
    let mut items = Items::new();
    for item in list {
        items.entry(item_element(list_type, item_schema, item)).or_default().push(item);
    }
    items
}

fn compare_items(
    schema: Option<SchemaRef<'_>>,
    before: &Items<'_>,
    after: &Items<'_>,
    changes: &mut Changes,
) {
    let removed = before.keys().filter(|element| !after.contains_key(*element));
    for element in after.keys().chain(removed) {
        let [old, new] = [before, after].map(|items| items.get(element).map_or(&[][..], Vec::as_slice));
        let mut compare = |old: &[&Value], new: &[&Value]| {
            compare_child(
                element.clone(),
                schema,
                (old.first().copied(), new.first().copied()),
                false,
                changes,
            );
        };
        match (old.len(), new.len()) {
            (0 | 1, 0 | 1) => compare(old, new),
            (0 | 1, _) => {
                compare(old, &[]);
                changes.written.add(element.clone(), FieldSet::leaf());
            }
            (_, 0 | 1) => {
                compare(&[], new);
                changes.removed.add(element.clone(), FieldSet::leaf());
            }
            _ if old != new => changes.written.add(element.clone(), FieldSet::leaf()),
            _ => {}
        }
    }
}

/// Compares the values at `element` and adds the differences to `changes`.
fn compare_child(
    element: PathElement,
    schema: Option<SchemaRef<'_>>,
    (old, new): (Option<&Value>, Option<&Value>),
    has_zero: bool,
    changes: &mut Changes,
) {
    let mut child_changes = Changes::default();
    compare_values(schema, old, new, has_zero, &mut child_changes);
    changes.written.add(element.clone(), child_changes.written);
    changes.removed.add(element, child_changes.removed);
}

/// Returns the fields of a value that was added or removed as a whole: the value itself and everything within it. A value
/// that exists in Go even if it is absent is not itself a member, unless it is a leaf or an empty object.
fn all_fields(schema: Option<SchemaRef<'_>>, value: &Value, has_zero: bool) -> FieldSet {
    let mut set = match (merge_kind(schema, value), value) {
        (MergeKind::Fields, Value::Object(object)) => {
            let mut set = FieldSet::default();
            for (name, child) in object {
                if has_zero && zero_value::is_zero(schema, name, Some(child)) {
                    continue;
                }
                let child_schema = child_schema(schema, name);
                let has_zero = has_zero && zero_value::exists(schema, name, child_schema);
                set.add(fieldset::field_element(name), all_fields(child_schema, child, has_zero));
            }
            set
        }
        (MergeKind::Items(list_type), Value::Array(list)) => {
            let item_schema = schema.and_then(SchemaRef::items);
            let mut set = FieldSet::default();
            for (element, items) in items_by_element(list_type, item_schema, list) {
                let mut item_set = match items[..] {
                    [item] => all_fields(item_schema, item, false),
                    _ => FieldSet::leaf(),
                };
                item_set.insert_self();
                set.add(element, item_set);
            }
            set
        }
        _ => FieldSet::leaf(),
    };
    if !has_zero || set.is_empty() {
        set.insert_self();
    }
    set
}
