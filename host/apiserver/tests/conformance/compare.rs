//! Differences between answers.

use std::collections::BTreeSet;

use serde_json::Value;

/// A difference between the answers of two servers to one step.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The name of the case.
    pub(crate) case: String,
    /// The number of the step, from 1.
    pub(crate) step: usize,
    /// The JSON pointer of the value that differs.
    pub(crate) pointer: String,
    pub(crate) expected: Value,
    pub(crate) actual: Value,
}

impl Difference {
    /// Returns the form in which the list of expected differences names it.
    pub(crate) fn id(&self) -> String {
        format!("{} {} {}", self.case, self.step, self.pointer)
    }
}

/// Compares the answers of a case.
pub(crate) fn answers(case: &str, expected: &[Value], actual: &[Value]) -> Vec<Difference> {
    let mut found = Vec::new();
    if expected.len() != actual.len() {
        found.push(Difference {
            case: case.to_owned(),
            step: 0,
            pointer: "/steps".into(),
            expected: expected.len().into(),
            actual: actual.len().into(),
        });
    }
    for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        if expected["code"] != actual["code"] {
            // The bodies of different status codes have nothing in common.
            found.push(Difference {
                case: case.to_owned(),
                step: index + 1,
                pointer: "/code".into(),
                expected: summary(expected),
                actual: summary(actual),
            });
            continue;
        }
        values(String::new(), expected, actual, &mut |pointer, expected, actual| {
            found.push(Difference {
                case: case.to_owned(),
                step: index + 1,
                pointer,
                expected: expected.clone(),
                actual: actual.clone(),
            });
        });
    }
    found
}

fn summary(answer: &Value) -> Value {
    format!("{} {}", answer["code"], answer["body"]["message"].as_str().unwrap_or_default()).into()
}

/// Reports the pointer of each value that differs. Arrays of different lengths differ as a whole.
fn values(
    pointer: String,
    expected: &Value,
    actual: &Value,
    report: &mut impl FnMut(String, &Value, &Value),
) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let keys: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
            for key in keys {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                let (expected, actual) = (expected.get(key), actual.get(key));
                // A missing member differs from null.
                let missing = Value::from("(missing)");
                values(pointer, expected.unwrap_or(&missing), actual.unwrap_or(&missing), report);
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                values(format!("{pointer}/{index}"), expected, actual, report);
            }
        }
        _ if expected == actual => {}
        _ => report(pointer, expected, actual),
    }
}

#[test]
fn differences_have_the_deepest_pointer() {
    use serde_json::json;

    let expected = json!({"code": 200, "body": {"a/b": [1, {"c": 2}], "d": [1], "gone": null}});
    let actual = json!({"code": 200, "body": {"a/b": [1, {"c": 3}], "d": [1, 2]}});
    let found = answers("group/case", &[expected], &[actual]);
    let ids: Vec<String> = found.iter().map(Difference::id).collect();
    assert_eq!(ids, ["group/case 1 /body/a~1b/1/c", "group/case 1 /body/d", "group/case 1 /body/gone"]);
}
