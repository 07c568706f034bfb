//! JSON patch (RFC 6902).

use serde_json::Value;

use super::PatchError;

/// The limit of operations in a patch, that of kube-apiserver (`maxJSONPatchOperations`).
const MAX_OPERATIONS: usize = 10_000;

/// Returns `target` with all operations of `patch` applied.
///
/// # Errors
/// [`PatchError::Malformed`] if `patch` is not a list of operations or has too many of them;
/// [`PatchError::Unprocessable`] with the operation and its path if one of them fails.
pub fn json_patch(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::Malformed(format!("the JSON patch cannot be decoded: {error}")))?;
    if operations.0.len() > MAX_OPERATIONS {
        let count = operations.0.len();
        let message =
            format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
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
    fn error_of_a_failed_operation_contains_the_operation() {
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
