//! CEL rules (`x-kubernetes-validations`) of custom resources.
//!
//! Each node with rules has them compiled once, when its CRD is read. The walk over the object is ours, because
//! Kubernetes pairs old and new list items by their keys (and leaves out transition rules where it cannot pair), which
//! `kube-cel`'s own walk does not.

use std::sync::Arc;

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, compile_schema, validate_compiled};
use serde_json::Value;

use super::field;
use super::node::Type;
use crate::status::Cause;

/// The compiled rules of one node.
#[derive(Clone)]
pub struct Rules {
    compiled: Arc<CompiledSchema>,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sources = self.compiled.validations.iter().flatten().map(|rule| &rule.rule.rule);
        f.debug_list().entries(sources).finish()
    }
}

impl Rules {
    /// The rules of the schema `raw` itself; none if it has none. Rules that do not compile are reported by
    /// [`compile_errors`] and fail every object.
    pub(super) fn read(raw: &Value) -> Option<Self> {
        raw.get("x-kubernetes-validations").and_then(Value::as_array).filter(|rules| !rules.is_empty())?;
        let mut alone = raw.clone();
        for_each_child(&mut alone, &mut strip);
        Some(Self { compiled: Arc::new(compile_schema(&alone)) })
    }

    /// Evaluates the rules with `self` bound to `value`, and `oldSelf` to `old` where the old value is known.
    pub(super) fn check(
        &self,
        ty: Type,
        path: &str,
        value: &Value,
        old: Option<&Value>,
        causes: &mut Vec<Cause>,
    ) {
        let Err(errors) = validate_compiled(&self.compiled, value, old) else { return };
        causes.extend(errors.iter().map(|error| failure(ty, path, error)));
    }
}

/// The rules directly below `raw` that cannot be compiled: index in `x-kubernetes-validations` and what is wrong.
pub(super) fn compile_errors(raw: &Value) -> Vec<(usize, String)> {
    let Some(rules) = Rules::read(raw) else { return Vec::new() };
    let results = rules.compiled.validations.iter().enumerate();
    results.filter_map(|(index, rule)| rule.as_ref().err().map(|error| (index, error.to_string()))).collect()
}

fn failure(ty: Type, path: &str, error: &ValidationError) -> Cause {
    let at = if error.field_path.is_empty() {
        path.to_owned()
    } else if error.field_path.starts_with(['.', '[']) {
        format!("{path}{}", error.field_path)
    } else {
        field::child(path, &error.field_path)
    };
    let at = at.trim_start_matches('.');
    // Kubernetes names the type instead of printing the value, which may be a whole object.
    let shown = Value::from(ty.name());
    match (&error.kind, error.reason.as_deref()) {
        (ErrorKind::ValidationFailure, Some("FieldValueForbidden")) => field::forbidden(at, &error.message),
        (ErrorKind::ValidationFailure, Some("FieldValueRequired")) => field::required(at, &error.message),
        (ErrorKind::ValidationFailure, Some("FieldValueDuplicate")) => field::duplicate(at, &shown),
        (ErrorKind::ValidationFailure, _) => field::invalid(at, &shown, error.message.trim()),
        _ => field::invalid(at, &shown, &format!("{} evaluating rule: {}", error.message, error.rule)),
    }
}

/// Removes rules and defaults from `schema` and all below it: defaults have been applied before, and a nested rule is
/// evaluated at its own node.
fn strip(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        object.remove("x-kubernetes-validations");
        object.remove("default");
    }
    for_each_child(schema, &mut strip);
}

fn for_each_child(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    for name in ["items", "additionalProperties", "not"] {
        if let Some(child) = schema.get_mut(name) {
            visit(child);
        }
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(&mut *visit);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        if let Some(branches) = schema.get_mut(name).and_then(Value::as_array_mut) {
            branches.iter_mut().for_each(&mut *visit);
        }
    }
}
