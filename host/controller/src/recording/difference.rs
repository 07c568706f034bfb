//! The first difference between two JSON values. Pure.

use serde_json::Value;

/// A place in two values at which they differ.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueDifference<'a> {
    /// The place as a JSON pointer (RFC 6901).
    pub pointer: String,
    /// What the first value has there; `None` for nothing.
    pub left: Option<&'a Value>,
    /// What the second value has there; `None` for nothing.
    pub right: Option<&'a Value>,
}

/// Returns the first place at which the values differ, in the order of the members of the first; `None` if they are equal.
#[must_use]
pub fn first_difference<'a>(left: &'a Value, right: &'a Value) -> Option<ValueDifference<'a>> {
    let (mut left, mut right) = (Some(left), Some(right));
    let mut pointer = String::new();
    if left == right {
        return None;
    }
    while let (Some(one), Some(other)) = (left, right) {
        let Some(name) = differing_member(one, other) else { break };
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        (left, right) = (member(one, &name), member(other, &name));
    }
    Some(ValueDifference { pointer, left, right })
}

/// Returns the first member or element that differs; `None` if the values are not both objects or both lists.
fn differing_member(left: &Value, right: &Value) -> Option<String> {
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => {
            one.keys().chain(other.keys()).find(|name| one.get(*name) != other.get(*name)).cloned()
        }
        (Value::Array(one), Value::Array(other)) => (0..one.len().max(other.len()))
            .find(|index| one.get(*index) != other.get(*index))
            .map(|index| index.to_string()),
        _ => None,
    }
}

fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => value.get(name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_has_a_place_and_both_values() {
        for (left, right, expected) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (
                json!({"a/b": [1, 2]}),
                json!({"a/b": [1, 3]}),
                Some(("/a~1b/1", Some(json!(2)), Some(json!(3)))),
            ),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), Some(("/b", None, Some(json!(2))))),
            (json!([1]), json!([]), Some(("/0", Some(json!(1)), None))),
            (json!(1), json!([1]), Some(("", Some(json!(1)), Some(json!([1]))))),
            (json!({"a": {"~": 1}}), json!({"a": {"~": 2}}), Some(("/a/~0", Some(json!(1)), Some(json!(2))))),
        ] {
            let found = first_difference(&left, &right);
            let found = found
                .as_ref()
                .map(|found| (found.pointer.as_str(), found.left.cloned(), found.right.cloned()));
            assert_eq!(found, expected, "{left} {right}");
        }
    }
}
