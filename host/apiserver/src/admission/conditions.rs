//! `matchConditions` of webhooks and policies.

use pilothouse_cel::{Expression, Value as CelValue};
use serde_json::Value;

use super::environment::{Environment, ResultType};
use super::expressions::Inputs;

/// What happens to a write if a webhook or a policy fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    #[default]
    Fail,
    Ignore,
}

impl FailurePolicy {
    /// Reads `failurePolicy`; the default is `Fail`.
    pub(crate) fn parse(value: &Value) -> Self {
        if value == "Ignore" { Self::Ignore } else { Self::Fail }
    }
}

/// Compiled match conditions.
pub(crate) struct Conditions(Vec<(String, Expression)>);

/// The result of match conditions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConditionsResult {
    Match,
    NoMatch,
    /// Some could not be evaluated, none is false, and the failure policy is `Fail`.
    Error(String),
}

impl Conditions {
    /// Compiles the `matchConditions` of a webhook or a policy.
    ///
    /// # Errors
    /// A condition cannot be compiled. They are refused when they are written.
    pub(crate) fn parse(conditions: &Value, environment: &Environment) -> Result<Self, String> {
        let conditions = conditions.as_array().into_iter().flatten().map(|condition| {
            let text = condition["expression"].as_str().unwrap_or_default();
            environment.compile(text, ResultType::Bool).map(|(expression, _)| (text.to_owned(), expression))
        });
        conditions.collect::<Result<_, _>>().map(Self)
    }

    /// Whether there are no conditions.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates the conditions within `budget`. One that is false decides, whatever the others are.
    pub(super) fn evaluate(
        &self,
        inputs: &Inputs<'_>,
        policy: FailurePolicy,
        budget: &mut u64,
    ) -> ConditionsResult {
        if self.is_empty() {
            return ConditionsResult::Match;
        }
        let inputs = inputs.of_conditions();
        let mut problems = Vec::new();
        for (text, expression) in &self.0 {
            match inputs.evaluate(expression, budget) {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => return ConditionsResult::NoMatch,
                Ok(_) => problems.push(format!("expression '{text}' resulted in error: it is not a boolean")),
                Err(failure) => problems.push(failure.describe(text)),
            }
        }
        match (problems.as_slice(), policy) {
            ([], _) => ConditionsResult::Match,
            (_, FailurePolicy::Ignore) => ConditionsResult::NoMatch,
            ([only], FailurePolicy::Fail) => ConditionsResult::Error(only.clone()),
            (many, FailurePolicy::Fail) => ConditionsResult::Error(format!("[{}]", many.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::expressions::CONDITIONS_BUDGET;
    use super::*;

    fn evaluate(conditions: &[&str], policy: FailurePolicy) -> ConditionsResult {
        let conditions: Vec<Value> =
            conditions.iter().map(|text| json!({"name": "c", "expression": text})).collect();
        let conditions = Conditions::parse(&Value::from(conditions), &Environment::of_conditions(false));
        let conditions = conditions.expect("valid");
        let inputs = Inputs::new(Some(&json!({"a": 1})), None, json!({}));
        let mut budget = CONDITIONS_BUDGET;
        conditions.evaluate(&inputs, policy, &mut budget)
    }

    #[test]
    fn all_conditions_must_be_true() {
        assert_eq!(evaluate(&[], FailurePolicy::Fail), ConditionsResult::Match);
        assert_eq!(evaluate(&["object.a == 1", "true"], FailurePolicy::Fail), ConditionsResult::Match);
        assert_eq!(evaluate(&["object.a == 1", "false"], FailurePolicy::Fail), ConditionsResult::NoMatch);
    }

    #[test]
    fn errors_follow_the_failure_policy_unless_a_condition_is_false() {
        let failing = ["object.b == 1", "true"];
        assert!(matches!(evaluate(&failing, FailurePolicy::Fail), ConditionsResult::Error(_)));
        assert_eq!(evaluate(&failing, FailurePolicy::Ignore), ConditionsResult::NoMatch);
        assert_eq!(evaluate(&["object.b == 1", "false"], FailurePolicy::Fail), ConditionsResult::NoMatch);
    }
}
