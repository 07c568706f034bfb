//! Validation of objects against their schema, with the messages of kube-apiserver's OpenAPI validation.

mod junctors;
mod unique_items;
mod values;

use serde_json::{Map, Value};

use super::correlation::{self, OldItems};
use super::node::{Node, SchemaRef, Type};
use super::{Schema, cel, embedded, field, object_meta, semantic};
use crate::status::{Cause, Causes};

impl Schema {
    /// Returns what is wrong with `new`, a pruned and defaulted object. `old` is the stored object on updates. It is
    /// needed for CEL transition rules and for validation ratcheting (KEP-4008, GA in 1.33): unchanged values may stay
    /// invalid.
    ///
    /// CEL rules are evaluated only if the object has the types that they rely on.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        self.validate_with(new, old, Vec::new(), &mut Vec::new())
    }

    /// Returns what is wrong as [`Schema::validate`] does. `scale` is what is wrong with the fields behind the subresource `scale` of a custom
    /// resource. `tolerated` gets the failed CEL rules of values that do not change.
    pub(crate) fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        scale: Vec<Cause>,
        tolerated: &mut Vec<Cause>,
    ) -> Vec<Cause> {
        let mut causes = semantic::validate_metadata(new, old, self.is_built_in());
        let mut validator = Validator::new(self.is_built_in());
        validator.root(new, old, self.root());
        if let Some(kind) = self.built_in {
            let mut found = semantic::validate(kind, new, old);
            validator.causes.retain(|cause| !is_covered(cause, &found));
            causes.append(&mut found);
            causes.append(&mut validator.causes);
            return causes.into();
        }
        causes.append(&mut validator.causes);
        causes.extend(scale);
        embedded::validate(new, self.root(), "", &mut causes);
        if !validator.list_causes.is_empty() && !old.is_some_and(|old| self.has_invalid_lists(old)) {
            causes.append(&mut validator.list_causes);
        }
        if self.arena.nodes.iter().all(|node| node.rules.is_none()) {
            return causes.into();
        }
        let cel_blockers = [
            "FieldValueTypeInvalid",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueNotSupported",
        ];
        if causes.iter().any(|cause| cel_blockers.contains(&cause.reason.as_str())) {
            let detail = "some validation rules were not checked because the object was invalid; correct the \
                          existing errors to complete validation";
            causes.push(field::invalid("", &Value::Null, detail));
            return causes.into();
        }
        let mut causes = causes.into();
        cel::evaluate(self.root(), new, old, &mut causes, tolerated);
        causes
    }

    /// Whether a list of type `set` or `map` has equal items. As in Kubernetes, no list is checked if the stored object has such a list.
    fn has_invalid_lists(&self, object: &Value) -> bool {
        let mut validator = Validator::new(false);
        validator.root(object, None, self.root());
        !validator.list_causes.is_empty()
    }

    /// Returns what is wrong with a value of a part of a custom resource, without its CEL rules. Paths are relative to the value.
    pub(super) fn validate_part(&self, value: &Value, schema: SchemaRef<'_>) -> Vec<Cause> {
        let mut validator = Validator::new(false);
        validator.node(value, None, schema, "");
        let mut causes = validator.causes;
        embedded::validate(value, schema, "", &mut causes);
        causes.append(&mut validator.list_causes);
        causes.into()
    }
}

/// Whether the validation of a built-in kind has found something about the same field as that of its schema, or about a part of it.
fn is_covered(cause: &Cause, found: &[Cause]) -> bool {
    found.iter().any(|other| match other.field.strip_prefix(&cause.field) {
        Some(rest) => rest.is_empty() || rest.starts_with(['.', '[']),
        None => false,
    })
}

/// Validates a value and everything in it.
struct Validator {
    causes: Causes,
    /// What is wrong with the items of lists of type `set` and `map`.
    list_causes: Causes,
    built_in: bool,
    /// How many checks were made, by which the failed branch of `anyOf` and `oneOf` is selected whose errors are reported
    /// (`MatchCount` in `k8s.io/kube-openapi/pkg/validation/validate`).
    checks: usize,
}

impl Validator {
    fn new(built_in: bool) -> Self {
        Self { causes: Causes::default(), list_causes: Causes::default(), built_in, checks: 0 }
    }

    fn root(&mut self, new: &Value, old: Option<&Value>, schema: SchemaRef<'_>) {
        let (Some(object), true) = (new.as_object(), self.built_in) else {
            self.node(new, old, schema, "");
            return;
        };
        // kube-apiserver does not check the schema of a built-in kind's status, which only controllers write.
        for (name, child) in object.iter().filter(|(name, _)| name.as_str() != "status") {
            if let Some(child_schema) = schema.field(name) {
                self.node(child, old.and_then(|old| old.get(name)), child_schema, name);
            }
        }
        self.required(object, schema.node(), "");
    }

    fn node(&mut self, new: &Value, old: Option<&Value>, schema: SchemaRef<'_>, path: &str) {
        let is_unchanged = |old: &Value| {
            if self.built_in { old == new } else { correlation::is_unchanged(new, old, schema) }
        };
        if old.is_some_and(is_unchanged) {
            return;
        }
        let node = schema.node();
        if new.is_null() && (node.nullable || self.built_in) {
            return;
        }
        self.checks += 1;
        if !self.check_type(new, node, path) {
            return;
        }
        self.checks += 1;
        if let Some(validations) = &node.validations {
            self.validations(new, old, validations, schema, path);
        }
        match new {
            Value::Object(object) => self.object(object, old, schema, path),
            Value::Array(items) => {
                if !self.built_in {
                    self.unique_items(items, &node.list_type, path);
                }
                let Some(item_schema) = schema.items() else { return };
                let old_items = OldItems::new(&node.list_type, old);
                for (index, item) in items.iter().enumerate() {
                    let old_item = old_items.find(item).map(|(_, old)| old);
                    self.node(item, old_item, item_schema, &field::index(path, index));
                }
            }
            _ => {}
        }
    }

    fn object(
        &mut self,
        object: &Map<String, Value>,
        old: Option<&Value>,
        schema: SchemaRef<'_>,
        path: &str,
    ) {
        let is_custom_object = schema.node().embedded || schema.node().custom_root;
        for (name, child) in object {
            let old_child = old.and_then(|old| old.get(name));
            let at = field::child(path, name);
            if is_custom_object && name == "metadata" {
                let mut meta = Validator::new(true);
                meta.node(child, old_child, object_meta(), &at);
                self.causes.append(&mut meta.causes);
            }
            if let Some(child_schema) = schema.field(name) {
                self.node(child, old_child, child_schema, &at);
            }
        }
        self.required(object, schema.node(), path);
    }

    fn required(&mut self, object: &Map<String, Value>, node: &Node, path: &str) {
        for name in &node.required {
            let missing = match object.get(name) {
                None => true,
                // For Go's types, null is absent. Empty strings are accepted here; `semantic` rejects them where needed.
                Some(value) => self.built_in && value.is_null(),
            };
            if missing {
                self.causes.push(field::required(&field::child(path, name), ""));
            }
        }
    }

    /// Checks the JSON type of `value`. Returns whether it is right.
    fn check_type(&mut self, value: &Value, node: &Node, path: &str) -> bool {
        if node.int_or_string {
            if is_integer(value) || value.is_string() {
                return true;
            }
            self.causes.push(field::wrong_type(path, "integer,string", type_name(value)));
            return false;
        }
        let has_type = match node.ty {
            Type::Any => true,
            Type::Object => value.is_object(),
            Type::Array => value.is_array(),
            Type::String => value.is_string(),
            Type::Integer => is_integer(value),
            Type::Number => value.is_number(),
            Type::Boolean => value.is_boolean(),
        };
        if !has_type {
            self.causes.push(field::wrong_type(path, node.ty.name(), type_name(value)));
            if node.ty == Type::Integer && value.is_number() {
                let format = node.validations.as_ref().and_then(|validations| validations.format.as_deref());
                self.causes.push(out_of_range(format, path));
            }
        }
        has_type
    }

    fn reject(&mut self, path: &str, value: &Value, detail: &str) {
        self.causes.push(field::invalid(path, value, &format!("{path} in body {detail}")));
    }
}

/// Returns the error about a number that the type of an integer cannot represent. As in Kubernetes, only the message has the path.
fn out_of_range(format: Option<&str>, path: &str) -> Cause {
    let format = format.map_or("(default format)".to_owned(), |format| format!("with format {format}"));
    let detail = format!("Checked value must be of type integer {format} in {path}");
    field::invalid("", &Value::from(""), &detail)
}

fn is_integer(value: &Value) -> bool {
    value.as_i64().is_some()
        || value.as_u64().is_some()
        || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Returns the name of a value's type in OpenAPI validation.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
