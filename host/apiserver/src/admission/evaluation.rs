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
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub message: String,
    /// The reason of a refusal; "" for `Invalid`.
    pub reason: String,
}

/// Evaluates the match conditions and the validations of a policy. Returns the validations that failed, or could not be evaluated if the
/// policy is to fail then. `left` is what all policies may still cost for the write.
pub(super) fn evaluate(
    rules: &PolicyRules,
    policy: FailurePolicy,
    inputs: &mut Inputs<'_>,
    left: &mut u64,
) -> Vec<Failure> {
    let conditions =
        within(CONDITIONS_BUDGET, left, |budget| rules.conditions.evaluate(inputs, policy, budget));
    match conditions {
        ConditionsResult::Match => {
            within(POLICY_BUDGET, left, |budget| failed_validations(rules, policy, inputs, budget))
        }
        ConditionsResult::NoMatch => Vec::new(),
        ConditionsResult::Error(message) => vec![Failure { message, reason: String::new() }],
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

fn failed_validations(
    rules: &PolicyRules,
    policy: FailurePolicy,
    inputs: &mut Inputs<'_>,
    budget: &mut u64,
) -> Vec<Failure> {
    let mut evaluation = Evaluation::new(rules, inputs, budget);
    let mut failures = Vec::new();
    for validation in &rules.validations {
        evaluation.provide(&validation.uses);
        match evaluation.value(&validation.expression) {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => failures.push(Failure {
                message: evaluation.message(validation),
                reason: validation.reason.clone().unwrap_or_default(),
            }),
            Err(_) if policy == FailurePolicy::Ignore => {}
            Err(failure) => {
                let message = failure.describe(&validation.text);
                failures.push(Failure { message, reason: String::new() });
                if failure == expressions::Failure::Budget {
                    break;
                }
            }
        }
    }
    failures
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
        let failures = evaluate(rules, policy.failure_policy, &mut inputs, &mut budget);
        failures.into_iter().map(|failure| failure.message).collect()
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
    fn exhausted_budget_ends_the_evaluation() {
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "validations": [{"expression": "object.n == 1"}, {"expression": "object.n == 2"}],
        }});
        let policy = Policy::parse(&policy);
        let rules = policy.rules.as_ref().expect("valid rules");
        let mut inputs = Inputs::new(Some(&json!({"n": 1})), None, json!({}));
        let failures = evaluate(rules, FailurePolicy::Fail, &mut inputs, &mut 1);
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
        assert!(evaluate(rules, FailurePolicy::Fail, &mut inputs, &mut left).is_empty());
        assert!(left < POLICY_BUDGET);
        let failures = evaluate(rules, FailurePolicy::Fail, &mut inputs, &mut 1);
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
