//! JSON patch (RFC 6902).

use serde_json::Value;

use super::PatchError;

/// More operations than this are refused, as by Kubernetes.
const MAX_OPERATIONS: usize = 10_000;

/// Applies the operations in `patch`; all or none.
///
/// # Errors
/// [`PatchError::Malformed`] if `patch` is no list of operations; [`PatchError::Unprocessable`] if one of them fails,
/// with the operation and its path.
pub fn json_patch(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::Malformed(format!("the JSON patch cannot be decoded: {error}")))?;
    if operations.0.len() > MAX_OPERATIONS {
        let have = operations.0.len();
        let message =
            format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {have}");
        return Err(PatchError::Malformed(message));
    }
    let mut result = target.clone();
    json_patch::patch(&mut result, &operations).map_err(|error| {
        let operation = operations.0.get(error.operation).map(ToString::to_string).unwrap_or_default();
        PatchError::Unprocessable(format!("operation {operation} of the JSON patch failed: {}", error.kind))
    })?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_apply_in_order() {
        let target = json!({"a": [1, 2], "b": {"c~/d": 1}});
        let patch = json!([
            {"op": "test", "path": "/a/0", "value": 1},
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "remove", "path": "/b/c~0~1d"},
            {"op": "copy", "from": "/a", "path": "/e"},
        ]);
        assert_eq!(json_patch(&target, &patch), Ok(json!({"a": [1, 2, 3], "b": {}, "e": [1, 2, 3]})));
    }

    #[test]
    fn a_failed_operation_names_itself_and_changes_nothing() {
        let target = json!({"a": 1});
        let patch =
            json!([{"op": "replace", "path": "/a", "value": 2}, {"op": "test", "path": "/a", "value": 1}]);
        let Err(PatchError::Unprocessable(message)) = json_patch(&target, &patch) else {
            panic!("the test must fail")
        };
        assert!(message.contains("\"test\"") && message.contains("/a"), "{message}");
        let missing = json_patch(&target, &json!([{"op": "remove", "path": "/zzz"}]));
        assert!(matches!(missing, Err(PatchError::Unprocessable(_))));
        assert!(matches!(json_patch(&target, &json!({"a": 2})), Err(PatchError::Malformed(_))));
    }
}
