//! Tests of the evaluation.

mod cost;
mod kubernetes;
mod library;
mod selections;
mod stack;

use serde_json::json;

use super::*;

fn sample() -> serde_json::Value {
    json!({
        "n": 3, "f": 1.5, "s": "text", "list": [1, 2, 3], "names": ["b", "a"], "none": null, "yes": true,
        "map": {"a": 1, "b": {"c": "d"}},
    })
}

fn compiled(text: &str) -> Expression {
    Expression::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn evaluate(expression: &Expression, object: serde_json::Value) -> Result<Value, EvaluationError> {
    expression.evaluate(vec![("object", from_json(object))], &mut Budget::full())
}

fn ours(text: &str) -> Result<Value, EvaluationError> {
    evaluate(&compiled(text), sample())
}

/// Evaluates as the library does, for which a selection from a value without members is false.
fn ours_as_library(text: &str) -> Result<Value, EvaluationError> {
    evaluate(&compiled(text).with_selection(Selection::FalseWithoutMembers), sample())
}

/// Returns the units that an evaluation costs.
fn cost(text: &str, object: &serde_json::Value) -> u64 {
    let mut budget = Budget::full();
    let variables = vec![("object", from_json(object.clone()))];
    compiled(text).evaluate(variables, &mut budget).unwrap_or_else(|error| panic!("{text:.100}: {error}"));
    COST_LIMIT - budget.left()
}
