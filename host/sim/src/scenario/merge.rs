//! Merge patches (RFC 7396), and the comparison of an object with a part of it. Pure.

use serde_json::{Map, Value};

/// Returns the value with a merge patch applied.
pub(super) fn merged(value: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut members = value.as_object().cloned().unwrap_or_else(Map::new);
    for (name, change) in patch {
        if change.is_null() {
            members.remove(name);
        } else {
            let before = members.get(name).unwrap_or(&Value::Null);
            let after = merged(before, change);
            members.insert(name.clone(), after);
        }
    }
    Value::Object(members)
}

/// Whether a value has all members of the part, at any depth. Lists must have as many elements, each of which has the
/// members of the part's element.
pub(super) fn contains(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Object(members), Value::Object(part)) => {
            part.iter().all(|(name, part)| members.get(name).is_some_and(|value| contains(value, part)))
        }
        (Value::Array(items), Value::Array(part)) => {
            items.len() == part.len() && items.iter().zip(part).all(|(value, part)| contains(value, part))
        }
        _ => value == part,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patches_follow_the_rfc() {
        for (value, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!([1, 2]), json!({"a": "b"}), json!({"a": "b"})),
            (json!({"a": [1]}), json!({"a": [2]}), json!({"a": [2]})),
        ] {
            assert_eq!(merged(&value, &patch), expected);
        }
    }

    #[test]
    fn a_part_is_found_at_any_depth() {
        let value = json!({"a": {"b": 1, "c": [{"d": 2, "e": 3}]}});
        assert!(contains(&value, &json!({"a": {"c": [{"d": 2}]}})));
        assert!(!contains(&value, &json!({"a": {"c": []}})));
        assert!(!contains(&value, &json!({"a": {"x": null}})));
    }
}
