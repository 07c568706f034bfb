//! The rules of a node, compiled.

use std::sync::Arc;

use pilothouse_cel::{CompileError, Expression, syntax_errors};
use serde::Deserialize;
use serde_json::Value;

use super::super::MAX_PATTERNS_SIZE;
use super::check::Problem;

/// The bytes that the rules and message expressions of one CRD may have together.
pub(crate) const MAX_RULES_LENGTH: usize = 256 << 10;

/// The compiled rules of one node.
#[derive(Clone)]
pub struct CelRules(pub(super) Arc<[Rule]>);

pub(super) struct Rule {
    pub(super) source: RuleSource,
    /// What is wrong with the rule if it cannot be compiled. CRDs with such a rule are refused.
    pub(super) compiled: Result<Compiled, Problem>,
}

pub(super) struct Compiled {
    pub(super) rule: Expression,
    pub(super) message: Option<Expression>,
    /// Whether the rule refers to `oldSelf`.
    pub(super) is_transition: bool,
}

/// An entry of `x-kubernetes-validations`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RuleSource {
    pub(super) rule: String,
    pub(super) message: Option<String>,
    pub(super) message_expression: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) field_path: Option<String>,
    pub(super) optional_old_self: Option<bool>,
}

impl std::fmt::Debug for CelRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|rule| &rule.source.rule)).finish()
    }
}

impl CelRules {
    /// Compiles the `x-kubernetes-validations` of a schema; `None` if there are none. Rules that do not compile are
    /// reported by [`check_rules`](super::check_rules), and every object fails them. `patterns` counts the patterns of all rules of a CRD: once they are too
    /// large together, the other rules are not compiled.
    pub(in crate::schema) fn compile(rules: Option<&Value>, patterns: &mut usize) -> Option<Self> {
        let rules = rules.and_then(Value::as_array).filter(|rules| !rules.is_empty())?;
        Some(Self(rules.iter().map(|rule| Rule::compile(rule, patterns)).collect()))
    }

    /// Whether a rule refers to the old value.
    pub(super) fn needs_old(&self) -> bool {
        self.0.iter().any(|rule| rule.compiled.as_ref().is_ok_and(|compiled| compiled.is_transition))
    }
}

impl Rule {
    fn compile(raw: &Value, patterns: &mut usize) -> Self {
        match RuleSource::deserialize(raw) {
            Ok(source) => {
                let compiled = Compiled::of(&source, patterns);
                Self { source, compiled }
            }
            Err(error) => {
                let problem = Problem::OfRule(format!("invalid rule: {error}"));
                Self { source: RuleSource::default(), compiled: Err(problem) }
            }
        }
    }

    /// The message of a failure, unless there is a `messageExpression`.
    pub(super) fn message(&self) -> String {
        let message = self.source.message.as_deref().map(str::trim).filter(|message| !message.is_empty());
        message.map_or_else(|| format!("failed rule: {}", self.source.rule.trim()), str::to_owned)
    }

    /// The text by which errors name the rule.
    pub(super) fn name(&self) -> &str {
        let message = self.source.message.as_deref().map(str::trim).filter(|message| !message.is_empty());
        message.unwrap_or_else(|| self.source.rule.trim())
    }
}

impl Compiled {
    fn of(source: &RuleSource, patterns: &mut usize) -> Result<Self, Problem> {
        if source.rule.trim().is_empty() {
            return Err(Problem::OfRule("a rule must not be empty".to_owned()));
        }
        let mut compile = |text: &str| {
            if *patterns > MAX_PATTERNS_SIZE {
                return Err("the patterns of the rules are too large together".to_owned());
            }
            let expression = Expression::compile(text).map_err(|error| match error {
                CompileError::Bounds(_) | CompileError::Syntax(_) => {
                    syntax_errors(text).unwrap_or_else(|| error.to_string())
                }
                other => {
                    // The patterns before the refused one were compiled.
                    *patterns += pilothouse_cel::MAX_PATTERNS_SIZE;
                    other.to_string()
                }
            })?;
            *patterns += expression.patterns_size();
            Ok(expression)
        };
        let rule =
            compile(&source.rule).map_err(|error| Problem::OfRule(format!("compilation failed: {error}")))?;
        let is_transition = rule.uses_variable("oldSelf");
        let message = source.message_expression.as_deref().filter(|text| !text.trim().is_empty());
        let message = message
            .map(compile)
            .transpose()
            .map_err(|error| Problem::OfMessage(format!("messageExpression compilation failed: {error}")))?;
        Ok(Self { rule, message, is_transition })
    }
}

/// Returns the bytes of all rules and message expressions in a schema.
pub(crate) fn rules_length(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => {
            let rules = members.get("x-kubernetes-validations").and_then(Value::as_array);
            let texts =
                rules.into_iter().flatten().flat_map(|rule| [&rule["rule"], &rule["messageExpression"]]);
            let own: usize = texts.filter_map(Value::as_str).map(str::len).sum();
            own + members.values().map(rules_length).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(rules_length).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
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
            let errors = crate::schema::Schema::from_crd(&schema).expect_err("errors");
            let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
            let expected =
                ["x-kubernetes-validations[1].rule", "x-kubernetes-validations[2].messageExpression"];
            assert_eq!(fields, expected);
            assert!(errors.iter().all(|error| error.message.contains(problem)), "{errors:?}");
        }
    }
}
