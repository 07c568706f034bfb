//! JSON merge patch (RFC 7386).

use serde_json::Value;

/// Returns `target` with the members of `patch` set, and those that are `null` there removed, recursively. Lists are
/// replaced.
pub fn merge_patch(target: &Value, patch: &Value) -> Value {
    let mut result = target.clone();
    json_patch::merge(&mut result, patch);
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_set_nulls_remove_them_and_lists_are_replaced() {
        let target = json!({"a": {"b": 1, "c": 2}, "l": [1, 2], "x": 1});
        let patch =
            json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3], "x": null, "y": {"z": null}});
        assert_eq!(merge_patch(&target, &patch), json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3], "y": {}}));
    }
}
