//! Checks that an applied configuration has the form that its schema describes, as `sigs.k8s.io/structured-merge-diff/typed` does.

use pilothouse_model::hash::HashSet;
use serde_json::{Map, Value};

use super::identity::{MergeKind, item_element, merge_kind, missing_key};
use super::{ApplyError, fieldset};
use crate::go;
use crate::schema::{
    AdditionalProperties, ListType, Schema, SchemaRef, Type, is_untyped_scalar, object_meta,
    preserves_unknown,
};

/// The members of an object and of an embedded resource that a CRD need not declare.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Checks an applied configuration before unknown fields are removed from it: it has no managed fields and no fields that the schema
/// does not declare or values of another type, the items of lists of type `map` have their keys, and no two items of a list have the same identity.
///
/// # Errors
/// [`ApplyError::Malformed`] if it has managed fields, otherwise [`ApplyError::Untyped`].
pub fn check_config(schema: &Schema, config: &Value) -> Result<(), ApplyError> {
    let managed = config.pointer("/metadata/managedFields").and_then(Value::as_array);
    if managed.is_some_and(|list| !list.is_empty()) {
        return Err(ApplyError::Malformed("metadata.managedFields must be nil".into()));
    }
    check(schema, config)
}

/// Checks an object as [`check_config`] does. It may have managed fields.
///
/// # Errors
/// [`ApplyError::Untyped`].
pub(super) fn check(schema: &Schema, object: &Value) -> Result<(), ApplyError> {
    check_object(schema, object, false)
}

/// Checks an object as [`check`] does. Its lists may have several items with the same identity.
///
/// # Errors
/// [`ApplyError::Untyped`].
pub(super) fn check_with_duplicates(schema: &Schema, object: &Value) -> Result<(), ApplyError> {
    check_object(schema, object, true)
}

fn check_object(schema: &Schema, object: &Value, allows_duplicates: bool) -> Result<(), ApplyError> {
    let mut check = Check { problems: Vec::new(), built_in: schema.is_built_in(), allows_duplicates };
    check.value(object, schema.root(), true, "");
    match check.problems.as_slice() {
        [] => Ok(()),
        [only] => Err(ApplyError::Untyped(only.clone())),
        several => Err(ApplyError::Untyped(format!("errors:\n  {}", several.join("\n  ")))),
    }
}

struct Check {
    problems: Vec<String>,
    built_in: bool,
    allows_duplicates: bool,
}

impl Check {
    fn value(&mut self, value: &Value, schema: SchemaRef<'_>, root: bool, path: &str) {
        if let Some(problem) = type_problem(value, schema, self.built_in) {
            let colon = if path.is_empty() { "" } else { ": " };
            self.problems.push(format!("{path}{colon}{problem}"));
            return;
        }
        match value {
            Value::Object(object) => self.object(object, schema, root, path),
            Value::Array(items) => self.list(items, value, schema, path),
            _ => {}
        }
    }

    fn object(&mut self, object: &Map<String, Value>, schema: SchemaRef<'_>, root: bool, path: &str) {
        let is_custom_object = (root && !self.built_in) || schema.node().embedded;
        // As in kube-apiserver, only one undeclared field of an object is reported.
        let mut found_undeclared = false;
        for (name, child) in object {
            let at = format!("{path}.{name}");
            if is_custom_object && OBJECT_FIELDS.contains(&name.as_str()) {
                if name == "metadata" {
                    let mut metadata = Self { problems: Vec::new(), built_in: true, ..*self };
                    metadata.value(child, object_meta(), false, &at);
                    self.problems.append(&mut metadata.problems);
                }
            } else if let Some(child_schema) = schema.field(name) {
                self.value(child, child_schema, false, &at);
            } else if !found_undeclared
                && !preserves_unknown(schema)
                && schema.node().additional == AdditionalProperties::Forbidden
            {
                found_undeclared = true;
                self.problems.push(format!("{at}: field not declared in schema"));
            }
        }
    }

    fn list(&mut self, items: &[Value], list: &Value, schema: SchemaRef<'_>, path: &str) {
        let item_schema = schema.items();
        let kind = merge_kind(Some(schema), list);
        let mut elements = HashSet::default();
        for (index, item) in items.iter().enumerate() {
            let element = match kind {
                MergeKind::Items(ListType::Map(_)) if !item.is_object() => {
                    let found = if item.is_null() { "a null element" } else { "non-map elements" };
                    self.problems.push(format!(
                        "{path}: element {index}: associative list with keys may not have {found}"
                    ));
                    continue;
                }
                MergeKind::Items(ListType::Map(names)) if missing_key(names, item_schema, item).is_some() => {
                    let name = missing_key(names, item_schema, item).map(String::as_str).unwrap_or_default();
                    self.problems.push(format!(
                        "{path}: element {index}: associative list with keys has an element that omits key field {name:?} \
                         (and doesn't have default value)"
                    ));
                    continue;
                }
                MergeKind::Items(list_type) => {
                    let element = item_element(list_type, item_schema, item);
                    let text = fieldset::display(&element);
                    if !elements.insert(element) && !self.allows_duplicates {
                        self.problems.push(format!("{path}: duplicate entries for key {text}"));
                    }
                    text
                }
                MergeKind::Leaf | MergeKind::Fields => format!("[{index}]"),
            };
            if let Some(item_schema) = item_schema {
                self.value(item, item_schema, false, &format!("{path}{element}"));
            }
        }
    }
}

/// Returns what is wrong if a value has another type than its field. As in Kubernetes, `null` has every type.
fn type_problem(value: &Value, schema: SchemaRef<'_>, built_in: bool) -> Option<String> {
    let node = schema.node();
    if value.is_null() {
        return None;
    }
    // What Go's type `&value.valueUnstructured` contains, as the verb `%v` prints it.
    let shown = || format!("&{{{}}}", go::printed(value));
    if is_untyped_scalar(schema, built_in) {
        let is_scalar = !value.is_object() && !value.is_array();
        return (!is_scalar).then(|| format!("expected any scalar, got {}", shown()));
    }
    let is_raw = (node.definition.is_some() && node.preserve_unknown) || node.int_or_string;
    match node.ty {
        _ if is_raw => None,
        Type::Object if !value.is_object() => Some(format!("expected map, got {}", shown())),
        Type::Array if !value.is_array() => Some(format!("expected list, got {}", shown())),
        Type::String if !value.is_string() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::syntax(value)))
        }
        Type::Boolean if !value.is_boolean() => Some(format!("expected boolean, got {}", shown())),
        Type::Integer | Type::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go::type_name(value)))
        }
        _ => None,
    }
}
