//! Compares the types, the type errors and the values of expressions with those of cel-go, configured as in kube-apiserver 1.36.
//!
//! `recorded.jsonl` has the expressions and what cel-go says of them. `go run . > ../recorded.jsonl` in `cel-go` writes it again.

use std::collections::BTreeSet;

use pilothouse_cel::check::{Objects, Type, check};
use pilothouse_cel::{Budget, CompileError, EvaluationError, Expression, Value, from_json};
use serde::Deserialize;
use serde_json::json;

/// What cel-go says of an expression.
#[derive(Deserialize)]
struct Record {
    expression: String,
    #[serde(default)]
    errors: BTreeSet<String>,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    fails: bool,
    /// The message of the failure, if it is recorded.
    #[serde(default)]
    error: String,
}

/// No objects.
struct NoObjects;

impl Objects for NoObjects {
    fn member(&self, _: usize, _: &str) -> Option<Type> {
        None
    }
}

fn records() -> impl Iterator<Item = Record> {
    include_str!("recorded.jsonl").lines().map(|line| serde_json::from_str(line).expect(line))
}

fn checked(expression: &Expression, text: &str) -> Result<Option<Type>, BTreeSet<String>> {
    let variables = [
        ("object", Type::Dyn),
        ("self", Type::map(Type::String, Type::Dyn)),
        ("tags", Type::list(Type::String)),
        ("count", Type::Int),
    ];
    check(expression, text, &variables, &NoObjects).map_err(|report| {
        let errors = report.lines().filter_map(|line| line.strip_prefix("ERROR: <input>:"));
        errors.map(str::to_owned).collect()
    })
}

fn evaluated(expression: &Expression) -> Result<Value, EvaluationError> {
    let variables = vec![
        ("object", from_json(json!({"b": 2}))),
        ("self", from_json(json!({"a": "text"}))),
        ("tags", from_json(json!(["a", "b"]))),
        ("count", Value::Int(3)),
    ];
    expression.evaluate(variables, &mut Budget::full())
}

/// Returns the text of a boolean, a number or a text.
fn text(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::String(value) => value.to_string(),
        _ => String::new(),
    }
}

#[test]
fn types_and_type_errors_are_those_of_cel_go() {
    let mut compared = 0;
    let mut different = Vec::new();
    for record in records() {
        let expression = match Expression::compile(&record.expression) {
            Ok(expression) => expression,
            // Both are refused here before their types are checked.
            Err(CompileError::Bounds(_) | CompileError::Pattern(_)) => continue,
            Err(error) => panic!("{}: {error}", record.expression),
        };
        compared += 1;
        let found = checked(&expression, &record.expression);
        let is_same = match &found {
            Ok(Some(ty)) => record.errors.is_empty() && ty.to_string() == short(&record.r#type),
            Ok(None) => true,
            Err(errors) => *errors == record.errors,
        };
        if !is_same {
            different
                .push(format!("{}\n  {found:?}\n  {:?} {}", record.expression, record.errors, record.r#type));
        }
    }
    assert!(compared > 1000, "{compared}");
    assert!(different.is_empty(), "{} of {compared}:\n{}", different.len(), different.join("\n"));
}

/// Returns the name that type errors have for a type.
fn short(name: &str) -> String {
    name.replace("google.protobuf.Duration", "duration").replace("google.protobuf.Timestamp", "timestamp")
}

/// Expressions that cel-go refuses to evaluate and this interpreter does not, or the reverse: functions, indexes and comparisons of values of other
/// types, and a key that is no scalar.
const OTHER_VALUES: [&str; 5] = [
    "self.a.reverse()",
    "object.min()",
    "object.b[?optional.none()]",
    "{ip('1.2.3.4'): 1.0}",
    "dyn(b'abc') in [dyn(1), dyn('5'), dyn(true)]",
];

#[test]
fn values_are_those_of_cel_go() {
    let mut compared = 0;
    let mut different = Vec::new();
    for record in records().filter(|record| record.errors.is_empty()) {
        let Ok(expression) = Expression::compile(&record.expression) else { continue };
        compared += 1;
        let found = evaluated(&expression);
        let is_same = match &found {
            Ok(value) => !record.fails && text(value) == record.value,
            Err(_) => record.fails,
        };
        if is_same == OTHER_VALUES.contains(&record.expression.as_str()) {
            different
                .push(format!("{}\n  {found:?}\n  {:?} {}", record.expression, record.value, record.fails));
        }
    }
    assert!(compared > 600, "{compared}");
    assert!(different.is_empty(), "{} of {compared}:\n{}", different.len(), different.join("\n"));
}

#[test]
fn messages_of_failures_are_those_of_cel_go() {
    let mut compared = 0;
    let mut different = Vec::new();
    for record in records().filter(|record| !record.error.is_empty()) {
        let expression = Expression::compile(&record.expression).expect(&record.expression);
        let found = evaluated(&expression).map_err(|error| error.cel_message());
        compared += 1;
        // cel-go adds the name of the operator to some of these messages.
        let is_same = match &found {
            Err(Some(message)) if message == "no such overload" => record.error.starts_with(message),
            Err(Some(message)) => *message == record.error,
            _ => false,
        };
        if !is_same {
            different.push(format!("{}\n  {found:?}\n  {:?}", record.expression, record.error));
        }
    }
    assert!(compared > 100, "{compared}");
    assert!(different.is_empty(), "{} of {compared}:\n{}", different.len(), different.join("\n"));
}
