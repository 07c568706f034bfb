//! CEL rules of custom resources (`x-kubernetes-validations`).
//!
//! The rules of a node are compiled once, when the schema of the CRD is parsed. This module traverses objects itself
//! instead of leaving it to `kube-cel`, since Kubernetes correlates old and new list items by their keys (and skips
//! transition rules for items without a counterpart), which `kube-cel` does not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, compile_schema, validate_compiled};
use pilothouse_model::cel;
use serde_json::Value;

use super::correlation::correlated_item;
use super::field;
use super::node::{AdditionalProperties, SchemaRef, Type};
use crate::status::Cause;

/// The compiled rules of one node.
#[derive(Clone)]
pub struct CelRules {
    compiled: Arc<CompiledSchema>,
    /// The indexes of the rules that were rejected before parsing, and why.
    rejected: Arc<[(usize, String)]>,
}

impl std::fmt::Debug for CelRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sources = self.compiled.validations.iter().flatten().map(|rule| &rule.rule.rule);
        f.debug_list().entries(sources).finish()
    }
}

impl CelRules {
    /// Compiles the rules of the schema `raw` itself, not those of its children; `None` if it has none. Rules that do
    /// not compile are reported by [`compile_errors`], and every object fails them.
    pub(super) fn compile(raw: &Value) -> Option<Self> {
        raw.get("x-kubernetes-validations").and_then(Value::as_array).filter(|rules| !rules.is_empty())?;
        let mut own_rules = raw.clone();
        for_each_child(&mut own_rules, &mut strip_rules_and_defaults);
        let mut rejected = Vec::new();
        for (index, rule) in
            own_rules["x-kubernetes-validations"].as_array_mut().into_iter().flatten().enumerate()
        {
            make_old_self_optional(rule);
            if let Err(problem) = check_bounds(rule) {
                // An empty rule fails to compile without any parsing.
                *rule = serde_json::json!({"rule": ""});
                rejected.push((index, problem));
            }
        }
        // The parser panics on some malformed rules.
        let compiled = catch_unwind(AssertUnwindSafe(|| compile_schema(&own_rules))).unwrap_or_else(|_| {
            rejected = vec![(0, "the parser failed: a rule is malformed".to_owned())];
            compile_schema(&serde_json::json!({"x-kubernetes-validations": [{"rule": ""}]}))
        });
        Some(Self { compiled: Arc::new(compiled), rejected: rejected.into() })
    }

    fn is_transition(&self, source: &str) -> bool {
        let mut rules = self.compiled.validations.iter().flatten();
        rules.any(|rule| rule.rule.rule == source && rule.is_transition_rule)
    }

    /// Evaluates the rules with `self` bound to `value` and `oldSelf` to `old`, if there is an old value.
    fn evaluate(&self, ty: Type, path: &str, value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        let Err(errors) = validate_compiled(&self.compiled, value, old) else { return };
        let unchanged = old == Some(value);
        // Validation ratcheting (KEP-4008): an unchanged value may keep failing all rules but transition rules.
        let is_relevant = |error: &&ValidationError| !unchanged || self.is_transition(&error.rule);
        causes.extend(errors.iter().filter(is_relevant).map(|error| cause(ty, path, error)));
    }
}

/// Evaluates the CEL rules of `schema` and of all nodes below it, and adds the failures to `causes`.
pub(super) fn evaluate(
    schema: SchemaRef<'_>,
    new: &Value,
    old: Option<&Value>,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let node = schema.node();
    if let Some(rules) = &node.rules
        && !new.is_null()
    {
        rules.evaluate(node.ty, path, new, old, causes);
    }
    match new {
        Value::Object(object) => {
            for (name, child) in object {
                let Some(child_schema) = schema.field(name) else { continue };
                let is_map_entry = matches!(node.additional, AdditionalProperties::Schema(_))
                    && !node.properties.contains_key(name);
                let at = if is_map_entry { field::key(path, name) } else { field::child(path, name) };
                let old_child = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                evaluate(child_schema, child, old_child, &at, causes);
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                let old_item = correlated_item(&node.list_type, item, old);
                evaluate(item_schema, item, old_item, &field::index(path, index), causes);
            }
        }
        _ => {}
    }
    for id in node.validations.iter().flat_map(|validations| &validations.all_of) {
        evaluate(schema.resolve(*id), new, old, path, causes);
    }
}

/// Returns the rules of the schema `raw` itself that cannot be compiled: their index in `x-kubernetes-validations` and
/// the problem.
pub(super) fn compile_errors(raw: &Value) -> Vec<(usize, String)> {
    let Some(rules) = CelRules::compile(raw) else { return Vec::new() };
    let results = rules.compiled.validations.iter().enumerate();
    let problem = |index, error: String| {
        let rejected = rules.rejected.iter().find(|(rejected, _)| *rejected == index);
        (index, rejected.map_or(error, |(_, problem)| problem.clone()))
    };
    results
        .filter_map(|(index, rule)| rule.as_ref().err().map(|error| problem(index, error.to_string())))
        .collect()
}

/// Checks that the expressions of a rule are within the bounds for the parser.
fn check_bounds(rule: &Value) -> Result<(), String> {
    for name in ["rule", "messageExpression"] {
        if let Some(text) = rule.get(name).and_then(Value::as_str) {
            cel::check(text).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn cause(ty: Type, path: &str, error: &ValidationError) -> Cause {
    let at = if error.field_path.is_empty() {
        path.to_owned()
    } else if error.field_path.starts_with(['.', '[']) {
        format!("{path}{}", error.field_path)
    } else {
        field::child(path, &error.field_path)
    };
    let at = at.trim_start_matches('.');
    // As in Kubernetes, messages contain the type instead of the value, which may be large.
    let type_name = Value::from(ty.name());
    match (&error.kind, error.reason.as_deref()) {
        (ErrorKind::ValidationFailure, Some("FieldValueForbidden")) => field::forbidden(at, &error.message),
        (ErrorKind::ValidationFailure, Some("FieldValueRequired")) => field::required(at, &error.message),
        (ErrorKind::ValidationFailure, Some("FieldValueDuplicate")) => field::duplicate(at, &type_name),
        (ErrorKind::ValidationFailure, _) => field::invalid(at, &type_name, error.message.trim()),
        _ => field::invalid(at, &type_name, &format!("{} evaluating rule: {}", error.message, error.rule)),
    }
}

/// Rewrites a rule with `optionalOldSelf`, in which `oldSelf` is a CEL optional. The library binds `oldSelf` to the value
/// or null, so the rewritten rule wraps it into an optional.
fn make_old_self_optional(rule: &mut Value) {
    const OPTIONAL: &str = "(oldSelf == null ? optional.none() : optional.of(oldSelf))";
    if rule.get("optionalOldSelf") != Some(&Value::Bool(true)) {
        return;
    }
    let Some(original) = rule.get("rule").and_then(Value::as_str).map(str::to_owned) else { return };
    if rule.get("message").is_none() {
        rule["message"] = format!("failed rule: {original}").into();
    }
    for name in ["rule", "messageExpression"] {
        if let Some(expression) = rule.get(name).and_then(Value::as_str) {
            rule[name] = replace_identifier(expression, "oldSelf", OPTIONAL).into();
        }
    }
}

/// Replaces a variable in a CEL expression, except in string literals and where the identifier is a field name.
fn replace_identifier(expression: &str, identifier: &str, replacement: &str) -> String {
    let is_identifier_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut result, mut quote, mut previous) = (String::new(), None, ' ');
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match quote {
            Some(_) if c == '\\' => length += rest[length..].chars().next().map_or(0, char::len_utf8),
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if !is_identifier_char(previous)
                && previous != '.'
                && rest
                    .strip_prefix(identifier)
                    .is_some_and(|after| !after.starts_with(is_identifier_char)) =>
            {
                result.push_str(replacement);
                rest = &rest[identifier.len()..];
                previous = ')';
                continue;
            }
            _ => {}
        }
        result.push_str(&rest[..length]);
        previous = c;
        rest = &rest[length..];
    }
    result
}

/// Removes rules and defaults from `schema` and everything below it. Defaults are applied before, and nested rules are
/// evaluated at their own node.
fn strip_rules_and_defaults(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        object.remove("x-kubernetes-validations");
        object.remove("default");
    }
    for_each_child(schema, &mut strip_rules_and_defaults);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_are_replaced() {
        let replaced = |text: &str| replace_identifier(text, "oldSelf", "X");
        assert_eq!(replaced("oldSelf.hasValue() || self.oldSelf == 1"), "X.hasValue() || self.oldSelf == 1");
        assert_eq!(
            replaced("'oldSelf' + \"a\\\"oldSelf\" + oldSelfish + oldSelf"),
            "'oldSelf' + \"a\\\"oldSelf\" + oldSelfish + X"
        );
    }

    #[test]
    fn rules_beyond_the_bounds_are_rejected_before_parsing() {
        for (rule, problem) in [
            (format!("{}self", "!!(".repeat(30)), "doubled prefixes"),
            (format!("self{}", ".a".repeat(3000)), "nests deeper than 64"),
            ("(".repeat(1000), "more than 24 brackets"),
        ] {
            let schema = serde_json::json!({"type": "object", "x-kubernetes-validations": [
                {"rule": "self == self"}, {"rule": rule}, {"rule": "true", "messageExpression": rule}
            ]});
            let errors = compile_errors(&schema);
            assert_eq!(errors.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2]);
            assert!(errors.iter().all(|(_, error)| error.contains(problem)), "{errors:?}");
        }
    }
}
