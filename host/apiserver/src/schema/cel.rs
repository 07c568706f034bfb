//! CEL rules (`x-kubernetes-validations`) of custom resources.
//!
//! Each node with rules has them compiled once, when its CRD is read. The walk over the object is ours, because
//! Kubernetes pairs old and new list items by their keys (and leaves out transition rules where it cannot pair), which
//! `kube-cel`'s own walk does not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, compile_schema, validate_compiled};
use pilothouse_model::cel;
use serde_json::Value;

use super::field;
use super::node::{Additional, SchemaRef, Type};
use super::pairing::paired;
use crate::status::Cause;

/// The compiled rules of one node.
#[derive(Clone)]
pub struct Rules {
    compiled: Arc<CompiledSchema>,
    /// The rules that were not given to the parser, and why.
    refused: Arc<[(usize, String)]>,
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
        let mut refused = Vec::new();
        for (index, rule) in
            alone["x-kubernetes-validations"].as_array_mut().into_iter().flatten().enumerate()
        {
            make_old_self_optional(rule);
            if let Err(problem) = check_bounds(rule) {
                // The parser fails at once on a rule without text, and so does each object of this rule.
                *rule = serde_json::json!({"rule": ""});
                refused.push((index, problem));
            }
        }
        // Some malformed rules make the parser panic instead of refusing them.
        let compiled = catch_unwind(AssertUnwindSafe(|| compile_schema(&alone))).unwrap_or_else(|_| {
            refused = vec![(0, "the parser failed: a rule is malformed".to_owned())];
            compile_schema(&serde_json::json!({"x-kubernetes-validations": [{"rule": ""}]}))
        });
        Some(Self { compiled: Arc::new(compiled), refused: refused.into() })
    }

    fn is_transition(&self, source: &str) -> bool {
        let mut rules = self.compiled.validations.iter().flatten();
        rules.any(|rule| rule.rule.rule == source && rule.is_transition_rule)
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
        let unchanged = old == Some(value);
        // What failed before and has not changed is let through, unless the rule is about the change.
        let counts = |error: &&ValidationError| !unchanged || self.is_transition(&error.rule);
        causes.extend(errors.iter().filter(counts).map(|error| failure(ty, path, error)));
    }
}

/// Evaluates the CEL rules of `schema` and of everything below it.
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
        rules.check(node.ty, path, new, old, causes);
    }
    match new {
        Value::Object(object) => {
            for (name, child) in object {
                let Some(of_child) = schema.field(name) else { continue };
                let in_map =
                    matches!(node.additional, Additional::Of(_)) && !node.properties.contains_key(name);
                let at = if in_map { field::key(path, name) } else { field::child(path, name) };
                let before = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                evaluate(of_child, child, before, &at, causes);
            }
        }
        Value::Array(items) => {
            let Some(of_items) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                let old_item = paired(&node.list_type, item, old);
                evaluate(of_items, item, old_item, &field::index(path, index), causes);
            }
        }
        _ => {}
    }
    for id in node.checks.iter().flat_map(|checks| &checks.all_of) {
        evaluate(schema.at(*id), new, old, path, causes);
    }
}

/// The rules directly below `raw` that cannot be compiled: index in `x-kubernetes-validations` and what is wrong.
pub(super) fn compile_errors(raw: &Value) -> Vec<(usize, String)> {
    let Some(rules) = Rules::read(raw) else { return Vec::new() };
    let results = rules.compiled.validations.iter().enumerate();
    let problem = |index, error: String| {
        let refused = rules.refused.iter().find(|(refused, _)| *refused == index);
        (index, refused.map_or(error, |(_, problem)| problem.clone()))
    };
    results
        .filter_map(|(index, rule)| rule.as_ref().err().map(|error| problem(index, error.to_string())))
        .collect()
}

/// Checks what a rule gives to the parser.
fn check_bounds(rule: &Value) -> Result<(), String> {
    for name in ["rule", "messageExpression"] {
        if let Some(text) = rule.get(name).and_then(Value::as_str) {
            cel::check(text).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
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

/// In rules with `optionalOldSelf`, `oldSelf` is a CEL optional. The library binds the value or null there, so the
/// rule is rewritten to make the optional of it.
fn make_old_self_optional(rule: &mut Value) {
    const OPTIONAL: &str = "(oldSelf == null ? optional.none() : optional.of(oldSelf))";
    if rule.get("optionalOldSelf") != Some(&Value::Bool(true)) {
        return;
    }
    let Some(written) = rule.get("rule").and_then(Value::as_str).map(str::to_owned) else { return };
    if rule.get("message").is_none() {
        rule["message"] = format!("failed rule: {written}").into();
    }
    for name in ["rule", "messageExpression"] {
        if let Some(expression) = rule.get(name).and_then(Value::as_str) {
            rule[name] = replace_identifier(expression, "oldSelf", OPTIONAL).into();
        }
    }
}

/// Replaces a variable in a CEL expression, but neither within string literals nor where it is a field's name.
fn replace_identifier(expression: &str, identifier: &str, replacement: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut result, mut quote, mut previous) = (String::new(), None, ' ');
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match quote {
            Some(_) if c == '\\' => taken += rest[taken..].chars().next().map_or(0, char::len_utf8),
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if !is_part(previous)
                && previous != '.'
                && rest.strip_prefix(identifier).is_some_and(|after| !after.starts_with(is_part)) =>
            {
                result.push_str(replacement);
                rest = &rest[identifier.len()..];
                previous = ')';
                continue;
            }
            _ => {}
        }
        result.push_str(&rest[..taken]);
        previous = c;
        rest = &rest[taken..];
    }
    result
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_nothing_else() {
        let replaced = |text: &str| replace_identifier(text, "oldSelf", "X");
        assert_eq!(replaced("oldSelf.hasValue() || self.oldSelf == 1"), "X.hasValue() || self.oldSelf == 1");
        assert_eq!(
            replaced("'oldSelf' + \"a\\\"oldSelf\" + oldSelfish + oldSelf"),
            "'oldSelf' + \"a\\\"oldSelf\" + oldSelfish + X"
        );
    }

    #[test]
    fn a_rule_beyond_a_bound_is_refused_before_it_is_parsed() {
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
