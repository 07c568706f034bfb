//! Compares an object with the part of it that a scenario expects. Pure.
//!
//! Every field that is given must be equal. Fields that are not given are ignored, except in lists: a list must have the given length, and its
//! elements are compared by index. `null` stands for a field that is absent or null.

use std::fmt::{self, Display, Formatter};

use serde_json::{Number, Value};

/// A field that is not as expected.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    /// Where the field is, such as `spec.containers[0].image`; "" for the whole object.
    path: String,
    /// `None` for a field that should be absent.
    expected: Option<Value>,
    /// `None` for a field that is absent.
    actual: Option<Value>,
}

/// The longest value that is shown, in characters.
const MAX_VALUE_CHARS: usize = 200;

/// Returns the fields of `actual` that are not as expected, in the order of `expected`.
pub(super) fn differences(expected: &Value, actual: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(expected, Some(actual), &mut String::new(), &mut found);
    found
}

/// Appends the differences of a field. `path` is the same after the call as before.
fn compare(expected: &Value, actual: Option<&Value>, path: &mut String, found: &mut Vec<Difference>) {
    match (expected, actual) {
        (Value::Null, None | Some(Value::Null)) => {}
        (Value::Object(expected), Some(Value::Object(actual))) => {
            for (name, expected) in expected {
                let length = path.len();
                push_member(path, name);
                compare(expected, actual.get(name), path, found);
                path.truncate(length);
            }
        }
        (Value::Array(expected), Some(Value::Array(actual))) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                let length = path.len();
                path.push_str(&format!("[{index}]"));
                compare(expected, Some(actual), path, found);
                path.truncate(length);
            }
        }
        (Value::Number(expected), Some(Value::Number(actual))) if same_number(expected, actual) => {}
        (expected, Some(actual)) if expected == actual => {}
        _ => found.push(Difference {
            path: path.clone(),
            expected: (!expected.is_null()).then(|| expected.clone()),
            actual: actual.cloned(),
        }),
    }
}

/// Appends the name of a member. A name that is not a plain one, such as a label's, is quoted.
fn push_member(path: &mut String, name: &str) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || !name.bytes().all(is_plain) {
        path.push_str(&format!("[{name:?}]"));
    } else {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    }
}

/// Whether two numbers are equal, of which one may be written as `1` and the other as `1.0`.
fn same_number(left: &Number, right: &Number) -> bool {
    left == right || ((left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64())
}

/// Writes the path, the actual and the expected value on one line.
impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        if let (Some(Value::Array(expected)), Some(Value::Array(actual))) = (&self.expected, &self.actual) {
            let (expected, actual) = (expected.len(), actual.len());
            return write!(f, "expected a list of {expected}, but it has {actual}");
        }
        let text = |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), shown);
        let (expected, actual) = (text(&self.expected), text(&self.actual));
        if self.actual.is_none() {
            write!(f, "expected {expected}, but it is absent")
        } else {
            write!(f, "expected {expected}, but it is {actual}")
        }
    }
}

/// Returns a value as JSON, shortened.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn texts(expected: &Value, actual: &Value) -> Vec<String> {
        differences(expected, actual).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fields_that_are_not_given_are_ignored() {
        let actual = json!({"spec": {"replicas": 3, "paused": false}, "status": {"ready": 1.0}});
        for expected in [
            json!({}),
            json!({"spec": {}}),
            json!({"spec": {"replicas": 3}}),
            json!({"spec": {"replicas": 3.0}, "status": {"ready": 1}}),
            json!({"spec": {"absent": null}, "absent": null}),
        ] {
            assert_eq!(texts(&expected, &actual), Vec::<String>::new(), "{expected}");
        }
    }

    #[test]
    fn each_difference_names_its_place() {
        let actual = json!({
            "metadata": {"labels": {"app.kubernetes.io/name": "web"}},
            "spec": {"replicas": 1, "ports": [{"port": 80, "name": "http"}], "args": ["a"], "secret": "s"},
        });
        let expected = json!({
            "metadata": {"labels": {"app.kubernetes.io/name": "shop"}, "annotations": {"a": "b"}},
            "spec": {"replicas": "1", "ports": [{"port": 81}], "args": ["a", "b"], "secret": null},
        });
        let mut found = texts(&expected, &actual);
        found.sort();
        assert_eq!(
            found,
            [
                r#"metadata.annotations: expected {"a":"b"}, but it is absent"#,
                r#"metadata.labels["app.kubernetes.io/name"]: expected "shop", but it is "web""#,
                "spec.args: expected a list of 2, but it has 1",
                "spec.ports[0].port: expected 81, but it is 80",
                r#"spec.replicas: expected "1", but it is 1"#,
                r#"spec.secret: expected absent, but it is "s""#,
            ]
        );
        assert_eq!(texts(&json!(1), &json!("x".repeat(1000)))[0].chars().count(), 224);
    }

    /// Any JSON value of a few levels.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c./]{1,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Removes the first member of each object on the way to the first leaf.
    fn without_first_member(value: &Value) -> Value {
        let Value::Object(members) = value else { return value.clone() };
        let rest = members.iter().skip(1);
        Value::Object(rest.map(|(name, value)| (name.clone(), without_first_member(value))).collect())
    }

    /// Removes the members that are null, at every level.
    fn without_nulls(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let present = members.iter().filter(|(_, value)| !value.is_null());
                Value::Object(present.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn a_value_matches_itself_and_each_part_of_it(value in value()) {
            prop_assert!(differences(&value, &value).is_empty());
            prop_assert!(differences(&without_first_member(&value), &value).is_empty());
        }

        #[test]
        fn values_match_each_other_only_if_all_but_null_members_are_equal(left in value(), right in value()) {
            let matches = differences(&left, &right).is_empty() && differences(&right, &left).is_empty();
            prop_assert_eq!(matches, without_nulls(&left) == without_nulls(&right));
        }
    }
}
