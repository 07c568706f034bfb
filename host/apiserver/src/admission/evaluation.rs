//! Evaluates the expressions of one policy, after `validator.go` in `k8s.io/apiserver/pkg/admission/plugin/policy/validating`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pilothouse_cel::{Expression, Map, Value as CelValue};

use super::conditions::{ConditionsResult, FailurePolicy};
use super::expressions::{self, CONDITIONS_BUDGET, Inputs, POLICY_BUDGET, with_entry};
use super::policy::{PolicyRules, Validation, Variable};

/// The longest value of a `messageExpression` in bytes, as in Kubernetes.
const MAX_MESSAGE_LENGTH: usize = 5 * 1024;

/// A validation that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Failure {
    pub message: String,
    /// The reason of a refusal; "" for `Invalid`.
    pub reason: String,
    /// The position of the validation; 0 if all of them failed.
    pub index: usize,
}

/// The result of a policy for one parameter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The validations that failed, or could not be evaluated if the policy is to fail then.
    pub failures: Vec<Failure>,
    /// The values of audit annotations by their keys, or why they have none if the policy is to fail then.
    pub annotations: Vec<AnnotationResult>,
}

/// The key of an audit annotation, with its value or why it has none.
pub(super) type AnnotationResult = (String, Result<String, String>);

impl Outcome {
    /// Returns the outcome of a policy that fails as a whole.
    fn failed(policy: FailurePolicy, message: String) -> Self {
        let failures = match policy {
            FailurePolicy::Fail => vec![Failure { message, ..Failure::default() }],
            FailurePolicy::Ignore => Vec::new(),
        };
        Self { failures, annotations: Vec::new() }
    }
}

/// Evaluates the match conditions, the validations and the audit annotations of a policy. `left` is what all policies may still cost for the
/// write.
pub(super) fn evaluate(
    rules: &PolicyRules,
    policy: FailurePolicy,
    inputs: &mut Inputs<'_>,
    left: &mut u64,
) -> Outcome {
    let conditions =
        within(CONDITIONS_BUDGET, left, |budget| rules.conditions.evaluate(inputs, policy, budget));
    match conditions {
        ConditionsResult::Match => {}
        ConditionsResult::NoMatch => return Outcome::default(),
        ConditionsResult::Error(message) => return Outcome::failed(policy, message),
    }
    let failures = within(POLICY_BUDGET, left, |budget| failed_validations(rules, policy, inputs, budget));
    // As in Kubernetes, a policy whose budget is exhausted fails as a whole.
    let failures = match failures {
        Ok(failures) => failures,
        Err(message) => return Outcome::failed(policy, message),
    };
    if rules.annotations.is_empty() {
        return Outcome { failures, annotations: Vec::new() };
    }
    match within(POLICY_BUDGET, left, |budget| annotations(rules, policy, inputs, budget)) {
        Ok(annotations) => Outcome { failures, annotations },
        Err(message) => Outcome::failed(policy, message),
    }
}

/// Runs `evaluate` with a budget of `limit` units, or `left` if that is less, and subtracts from `left` what it used.
pub(super) fn within<T>(limit: u64, left: &mut u64, evaluate: impl FnOnce(&mut u64) -> T) -> T {
    let limit = limit.min(*left);
    let mut budget = limit;
    let result = evaluate(&mut budget);
    *left -= limit - budget;
    result
}

/// Returns the validations that failed.
///
/// # Errors
/// The budget is exhausted.
fn failed_validations(
    rules: &PolicyRules,
    policy: FailurePolicy,
    inputs: &mut Inputs<'_>,
    budget: &mut u64,
) -> Result<Vec<Failure>, String> {
    let mut evaluation = Evaluation::new(rules, inputs, budget);
    let mut failures = Vec::new();
    for (index, validation) in rules.validations.iter().enumerate() {
        evaluation.provide(&validation.uses);
        match evaluation.value(&validation.expression) {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => failures.push(Failure {
                message: evaluation.message(validation),
                reason: validation.reason.clone().unwrap_or_default(),
                index,
            }),
            Err(failure @ expressions::Failure::Budget) => return Err(failure.describe(&validation.text)),
            Err(_) if policy == FailurePolicy::Ignore => {}
            Err(failure) => {
                let message = failure.describe(&validation.text);
                failures.push(Failure { message, index, ..Failure::default() });
            }
        }
    }
    Ok(failures)
}

/// Returns the audit annotations that have a value, or none because of an error.
///
/// # Errors
/// The budget is exhausted.
fn annotations(
    rules: &PolicyRules,
    policy: FailurePolicy,
    inputs: &mut Inputs<'_>,
    budget: &mut u64,
) -> Result<Vec<AnnotationResult>, String> {
    let mut evaluation = Evaluation::new(rules, inputs, budget);
    let mut found = Vec::new();
    for annotation in &rules.annotations {
        evaluation.provide(&annotation.uses);
        let value = match evaluation.value(&annotation.expression) {
            Ok(CelValue::String(text)) if text.trim().is_empty() => continue,
            Ok(CelValue::String(text)) => Ok(text.trim().to_owned()),
            Ok(CelValue::Null) => continue,
            Ok(other) => Err(format!(
                "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                annotation.text,
                other.type_of()
            )),
            Err(failure @ expressions::Failure::Budget) => return Err(failure.describe(&annotation.text)),
            Err(_) if policy == FailurePolicy::Ignore => continue,
            Err(failure) => Err(failure.describe(&annotation.text)),
        };
        found.push((annotation.key.clone(), value));
    }
    Ok(found)
}

/// The evaluation of one policy. A variable is evaluated when the first expression uses it.
pub(super) struct Evaluation<'a, 'i> {
    variables: &'a [Variable],
    /// The value of `variables`.
    values: Map,
    /// Why variables have no value, by name.
    failed: BTreeMap<&'a str, String>,
    /// The positions of the variables that were evaluated.
    evaluated: BTreeSet<usize>,
    /// The units that are left.
    budget: &'a mut u64,
    inputs: &'a mut Inputs<'i>,
}

impl<'a, 'i> Evaluation<'a, 'i> {
    /// Begins an evaluation.
    pub(super) fn new(rules: &'a PolicyRules, inputs: &'a mut Inputs<'i>, budget: &'a mut u64) -> Self {
        let mut evaluation = Self {
            variables: &rules.variables,
            values: Map { map: Arc::new(HashMap::new()) },
            failed: BTreeMap::new(),
            evaluated: BTreeSet::new(),
            budget,
            inputs,
        };
        evaluation.publish();
        evaluation
    }

    /// Makes `variables` available to expressions.
    fn publish(&mut self) {
        self.inputs.set("variables", CelValue::Map(self.values.clone()));
    }

    /// Evaluates the variables at these positions, and those that they use. A variable uses only earlier ones.
    pub(super) fn provide(&mut self, positions: &[usize]) {
        let mut needed = BTreeSet::new();
        let mut open = positions.to_vec();
        while let Some(position) = open.pop() {
            if !self.evaluated.contains(&position) && needed.insert(position) {
                open.extend(&self.variables[position].uses);
            }
        }
        for position in needed {
            let variable = &self.variables[position];
            match self.value(&variable.expression) {
                Ok(value) => {
                    // Released first, so that the map is extended in place.
                    self.inputs.set("variables", CelValue::Null);
                    let values = std::mem::replace(&mut self.values, Map { map: Arc::default() });
                    self.values = with_entry(values, &variable.name, value);
                    self.publish();
                }
                Err(failure) => {
                    let problem = match failure {
                        expressions::Failure::Error(problem) => problem,
                        budget @ expressions::Failure::Budget => budget.describe(&variable.text),
                    };
                    self.failed.insert(&variable.name, problem);
                }
            }
            self.evaluated.insert(position);
        }
    }

    pub(super) fn value(&mut self, expression: &Expression) -> Result<CelValue, expressions::Failure> {
        let is_failed = |name: &&&str| expressions::selects_optionally(expression.root(), "variables", name);
        if let Some(name) = self.failed.keys().find(is_failed) {
            let problem = self.explain(format!("no such key: {name}"));
            return Err(expressions::Failure::Error(problem));
        }
        let result = self.inputs.evaluate(expression, self.budget);
        result.map_err(|failure| match failure {
            expressions::Failure::Error(problem) => expressions::Failure::Error(self.explain(problem)),
            budget @ expressions::Failure::Budget => budget,
        })
    }

    /// Names the reason if an expression failed because a variable has no value.
    fn explain(&self, problem: String) -> String {
        let variable = problem.strip_prefix("no such key: ").and_then(|name| self.failed.get_key_value(name));
        match variable {
            Some((name, reason)) => format!("composited variable {name:?} fails to evaluate: {reason}"),
            None => problem,
        }
    }

    /// Returns the message of a validation that is false.
    fn message(&mut self, validation: &Validation) -> String {
        let evaluated =
            validation.message_expression.as_ref().and_then(|expression| self.value(expression).ok());
        if let Some(CelValue::String(text)) = evaluated {
            let text = text.trim();
            if !text.is_empty() && text.len() <= MAX_MESSAGE_LENGTH && !text.contains('\n') {
                return text.to_owned();
            }
        }
        match validation.message.as_deref().map(str::trim) {
            Some(message) if !message.is_empty() => message.to_owned(),
            _ => format!("failed expression: {}", validation.text.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::policy::Policy;
    use super::*;

    fn failures(spec: &Value, object: &Value) -> Vec<String> {
        let policy = Policy::parse(&json!({"metadata": {"name": "p"}, "spec": spec}));
        let rules = policy.rules.as_ref().expect("valid rules");
        let mut inputs = Inputs::new(Some(object), None, json!({"operation": "CREATE"}));
        inputs.set("params", CelValue::Null);
        inputs.set("namespaceObject", CelValue::Null);
        let mut budget = POLICY_BUDGET;
        let outcome = evaluate(rules, policy.failure_policy, &mut inputs, &mut budget);
        outcome.failures.into_iter().map(|failure| failure.message).collect()
    }

    #[test]
    fn message_comes_from_the_expression_then_the_text_then_the_rule() {
        let object = json!({"n": 7});
        let rule = |extra: &Value| {
            let mut rule = json!({"expression": "object.n < 5"});
            for (name, value) in extra.as_object().into_iter().flatten() {
                rule[name] = value.clone();
            }
            json!({"validations": [rule]})
        };
        assert_eq!(failures(&rule(&json!({})), &object), ["failed expression: object.n < 5"]);
        assert_eq!(failures(&rule(&json!({"message": " too many "})), &object), ["too many"]);
        let dynamic = json!({"message": "m", "messageExpression": "string(object.n) + ' is too many'"});
        assert_eq!(failures(&rule(&dynamic), &object), ["7 is too many"]);
        let failing = json!({"message": "m", "messageExpression": "string(object.x)"});
        assert_eq!(failures(&rule(&failing), &object), ["m"]);
        let lines = json!({"message": "m", "messageExpression": "'a\\nb'"});
        assert_eq!(failures(&rule(&lines), &object), ["m"]);
        assert!(failures(&rule(&json!({})), &json!({"n": 1})).is_empty());
    }

    #[test]
    fn variables_use_earlier_variables_and_are_evaluated_only_if_they_are_used() {
        let spec = json!({
            "variables": [
                {"name": "a", "expression": "object.n + 1"},
                {"name": "b", "expression": "variables.a * 2"},
                {"name": "broken", "expression": "object.missing"},
            ],
            "validations": [{"expression": "variables.b == 16"}, {"expression": "variables.b < 16"}],
        });
        assert_eq!(failures(&spec, &json!({"n": 7})), ["failed expression: variables.b < 16"]);
    }

    #[test]
    fn expression_that_uses_a_failed_variable_names_it() {
        let spec = json!({
            "variables": [{"name": "broken", "expression": "object.missing"}],
            "validations": [
                {"expression": "has(object.n) || variables.broken == true"}, {"expression": "variables.broken == true"},
            ],
        });
        assert_eq!(
            failures(&spec, &json!({"n": 7})),
            [
                "expression 'variables.broken == true' resulted in error: composited variable \"broken\" fails to evaluate: no such \
              key: missing"
            ]
        );
    }

    #[test]
    fn errors_follow_the_failure_policy() {
        let spec =
            |policy: &str| json!({"failurePolicy": policy, "validations": [{"expression": "object.x > 1"}]});
        let problem = "expression 'object.x > 1' resulted in error: no such key: x";
        assert_eq!(failures(&spec("Fail"), &json!({})), [problem]);
        assert!(failures(&spec("Ignore"), &json!({})).is_empty());
    }

    #[test]
    fn audit_annotations_have_values_or_errors() {
        let annotation = |key: &str, expression: &str| json!({"key": key, "valueExpression": expression});
        let outcome = |failure_policy: &str| {
            let policy = Policy::parse(&json!({"metadata": {"name": "p"}, "spec": {
                "failurePolicy": failure_policy,
                "variables": [{"name": "n", "expression": "object.n"}],
                "auditAnnotations": [
                    annotation("text", "' ' + string(variables.n) + ' '"), annotation("none", "null"),
                    annotation("empty", "' '"), annotation("broken", "string(object.x)"),
                ],
            }}));
            let rules = policy.rules.as_ref().expect("valid rules");
            let mut inputs = Inputs::new(Some(&json!({"n": 7})), None, json!({}));
            let mut budget = POLICY_BUDGET;
            evaluate(rules, policy.failure_policy, &mut inputs, &mut budget).annotations
        };
        let text = ("text".to_owned(), Ok("7".to_owned()));
        let problem = "expression 'string(object.x)' resulted in error: no such key: x".to_owned();
        assert_eq!(outcome("Fail"), [text.clone(), ("broken".to_owned(), Err(problem))]);
        assert_eq!(outcome("Ignore"), [text]);
    }

    #[test]
    fn exhausted_budget_ends_the_evaluation() {
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "validations": [{"expression": "object.n == 1"}, {"expression": "object.n == 2"}],
        }});
        let policy = Policy::parse(&policy);
        let rules = policy.rules.as_ref().expect("valid rules");
        let mut inputs = Inputs::new(Some(&json!({"n": 1})), None, json!({}));
        let failures = evaluate(rules, FailurePolicy::Fail, &mut inputs, &mut 1).failures;
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].message.contains("running out of cost budget"), "{failures:?}");
    }

    #[test]
    fn match_conditions_are_charged_to_the_write() {
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "matchConditions": [{"name": "c", "expression": "object.n == 2"}],
            "validations": [{"expression": "true"}],
        }});
        let policy = Policy::parse(&policy);
        let rules = policy.rules.as_ref().expect("valid rules");
        let mut inputs = Inputs::new(Some(&json!({"n": 1})), None, json!({}));
        let mut left = POLICY_BUDGET;
        assert_eq!(evaluate(rules, FailurePolicy::Fail, &mut inputs, &mut left), Outcome::default());
        assert!(left < POLICY_BUDGET);
        let failures = evaluate(rules, FailurePolicy::Fail, &mut inputs, &mut 1).failures;
        assert!(failures[0].message.contains("running out of cost budget"), "{failures:?}");
    }

    #[test]
    fn match_conditions_decide_whether_the_policy_applies() {
        let spec = |condition: &str| {
            json!({
                "matchConditions": [{"name": "c", "expression": condition}],
                "validations": [{"expression": "false"}],
            })
        };
        assert!(failures(&spec("request.operation == 'DELETE'"), &json!({})).is_empty());
        assert_eq!(
            failures(&spec("request.operation == 'CREATE'"), &json!({})),
            ["failed expression: false"]
        );
    }
}
