//! JSON patch (RFC 6902).
//!
//! A short patch can make a large object: each `copy` may double it, and values that are put into each other nest ever deeper. Each operation is
//! therefore checked before it is applied.

use std::io;

use json_patch::{AddOperation, PatchErrorKind, PatchOperation, ReplaceOperation};
use serde_json::Value;

use super::PatchError;
use crate::go;

/// The limit of operations in a patch, that of kube-apiserver (`maxJSONPatchOperations`).
const MAX_OPERATIONS: usize = 10_000;
/// The bytes that all `copy` operations of a patch may copy, as in kube-apiserver (`JSONPatchMaxCopyBytes`).
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// The list items that all operations of a patch may shift by inserting or removing an item before them.
const MAX_SHIFTED_ITEMS: usize = 50_000_000;
/// The members and items that all operations of a patch may move to a deeper level. Each such move visits them all to check their depth.
const MAX_VISITED_VALUES: usize = 10_000_000;
/// The levels that the result may nest, those that a request's body may nest. Everything that walks a value recurses once per level.
const MAX_DEPTH: usize = 128;

/// Returns `target` with all operations of `patch` applied.
///
/// # Errors
/// [`PatchError::Malformed`] if `patch` is not a list of operations; [`PatchError::TooLarge`] if it has too many of them;
/// [`PatchError::Unprocessable`] with the operation and its path if one of them fails or exceeds a limit.
pub fn json_patch(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let count = patch.as_array().map_or(0, Vec::len);
    if count > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        )));
    }
    if !patch.as_array().is_some_and(|operations| operations.iter().all(Value::is_object)) {
        let found = if patch.is_array() { "a list with other items" } else { go::json_type(patch) };
        return Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
        )));
    }
    let kinds = ["add", "remove", "replace", "move", "copy", "test"];
    let names = patch.as_array().into_iter().flatten().filter_map(|operation| operation["op"].as_str());
    if let Some(unknown) = names.into_iter().find(|name| !kinds.contains(name)) {
        return Err(PatchError::Unprocessable(format!("Unexpected kind: {unknown}")));
    }
    // kube-apiserver decodes an operation when it applies it, so an unknown operation fails like one that does not fit the object.
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::Unprocessable(format!("the JSON patch cannot be decoded: {error}")))?;
    let mut result = target.clone();
    let mut effort = Effort::default();
    for operation in &operations.0 {
        let failed = |problem: String| {
            PatchError::Unprocessable(format!("operation {operation} of the JSON patch failed: {problem}"))
        };
        if let Some(problem) = problem_of_path(&result, operation) {
            return Err(PatchError::Unprocessable(problem));
        }
        effort.charge(&result, operation).map_err(failed)?;
        // As in kube-apiserver, the replacement of a missing member of an object adds it.
        let added = addition(&result, operation);
        let operation = added.as_ref().unwrap_or(operation);
        // A failure leaves the copy as it is, which is dropped then.
        json_patch::patch_unsafe(&mut result, std::slice::from_ref(operation)).map_err(|error| {
            let failed = failed(error.kind.to_string());
            match error.kind {
                PatchErrorKind::TestFailed => PatchError::TestFailed(failed.to_string()),
                _ => failed,
            }
        })?;
    }
    Ok(result)
}

/// Returns why an operation that adds or removes a value cannot be applied because of its path, in the words of kube-apiserver.
fn problem_of_path(target: &Value, operation: &PatchOperation) -> Option<String> {
    let name = match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        _ => return None,
    };
    let path = operation.path();
    let parent = path.split_back().and_then(|(parent, last)| {
        let parent = target.pointer(parent.as_str())?;
        (parent.is_object() || parent.is_array()).then(|| (parent, last.decoded().into_owned()))
    });
    let Some((parent, last)) = parent else {
        return Some(format!(
            "{name} operation does not apply: doc is missing path: \"{path}\": missing value"
        ));
    };
    let is_missing = name == "remove" && parent.as_object().is_some_and(|object| !object.contains_key(&last));
    is_missing.then(|| {
        format!("error in remove for path: '{path}': Unable to remove nonexistent key: {last}: missing value")
    })
}

/// Returns the operation that adds the member which `operation` replaces, if the object around it exists and lacks it.
fn addition(target: &Value, operation: &PatchOperation) -> Option<PatchOperation> {
    let PatchOperation::Replace(ReplaceOperation { path, value }) = operation else { return None };
    let (parent, _) = path.split_back()?;
    let is_missing = target.pointer(path.as_str()).is_none();
    (is_missing && target.pointer(parent.as_str())?.is_object())
        .then(|| PatchOperation::Add(AddOperation { path: path.clone(), value: value.clone() }))
}

/// What the operations of a patch have cost so far.
#[derive(Default)]
struct Effort {
    copied_bytes: usize,
    shifted_items: usize,
    visited_values: usize,
}

impl Effort {
    /// Adds the cost of an operation on `target`.
    ///
    /// # Errors
    /// The limit that the operation exceeds.
    fn charge(&mut self, target: &Value, operation: &PatchOperation) -> Result<(), String> {
        let path = operation.path().as_str();
        let (value, removed_from) = match operation {
            PatchOperation::Add(add) => (Some(&add.value), None),
            PatchOperation::Replace(replace) => (Some(&replace.value), None),
            PatchOperation::Copy(copy) => (target.pointer(copy.from.as_str()), None),
            PatchOperation::Move(moved) => (target.pointer(moved.from.as_str()), Some(moved.from.as_str())),
            PatchOperation::Remove(_) => (None, Some(path)),
            PatchOperation::Test(_) => return Ok(()),
        };
        let levels = path.matches('/').count();
        // A value that moves up, or to the same level, makes the result no deeper.
        let is_no_deeper = removed_from.is_some_and(|from| levels <= from.matches('/').count());
        if let Some(value) = value.filter(|_| !is_no_deeper) {
            if levels + depth(value, &mut self.visited_values) > MAX_DEPTH {
                return Err(format!("the result nests deeper than {MAX_DEPTH} levels"));
            }
            if matches!(operation, PatchOperation::Copy(_)) {
                self.copied_bytes += length(value);
            }
        }
        if self.copied_bytes > MAX_COPIED_BYTES {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of JSON copy is {}, exceeding the limit \
                 {MAX_COPIED_BYTES}",
                self.copied_bytes
            ));
        }
        if self.visited_values > MAX_VISITED_VALUES {
            return Err(format!(
                "the patch moves values down that have more than {MAX_VISITED_VALUES} members and items together"
            ));
        }
        let is_insertion =
            matches!(operation, PatchOperation::Add(_) | PatchOperation::Copy(_) | PatchOperation::Move(_));
        let inserted_at = Some(path).filter(|_| is_insertion);
        for pointer in removed_from.into_iter().chain(inserted_at) {
            self.shifted_items += items_after(target, pointer).unwrap_or_default();
        }
        if self.shifted_items > MAX_SHIFTED_ITEMS {
            return Err(format!(
                "the patch shifts more than {MAX_SHIFTED_ITEMS} list items: replace the list as a whole"
            ));
        }
        Ok(())
    }
}

/// Returns the number of list items that an insertion or removal at `pointer` shifts; `None` if it is not a position in a list.
fn items_after(target: &Value, pointer: &str) -> Option<usize> {
    let (parent, position) = pointer.rsplit_once('/')?;
    let list = target.pointer(parent)?.as_array()?;
    Some(list.len().saturating_sub(position.parse().ok()?))
}

/// Returns the levels of a value: 0 for a scalar, 1 for a list of scalars. Adds the number of its values to `visited`.
fn depth(value: &Value, visited: &mut usize) -> usize {
    *visited += 1;
    match value {
        Value::Object(object) => {
            1 + object.values().map(|value| depth(value, visited)).max().unwrap_or_default()
        }
        Value::Array(items) => 1 + items.iter().map(|item| depth(item, visited)).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Returns the length of a value as JSON in bytes.
fn length(value: &Value) -> usize {
    struct Counter(usize);

    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
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
        let Err(PatchError::TestFailed(message)) = json_patch(&target, &patch) else {
            panic!("the test must fail")
        };
        assert!(message.contains("\"test\"") && message.contains("/a"), "{message}");
        let missing = json_patch(&target, &json!([{"op": "remove", "path": "/zzz"}]));
        assert!(matches!(missing, Err(PatchError::Unprocessable(_))));
        assert!(matches!(json_patch(&target, &json!({"a": 2})), Err(PatchError::Malformed(_))));
    }

    #[test]
    fn path_that_does_not_exist_has_the_message_of_kube_apiserver() {
        let message = |operation: Value| error(&json!({"a": {}, "l": []}), vec![operation]);
        assert_eq!(
            message(json!({"op": "remove", "path": "/a/b"})),
            "error in remove for path: '/a/b': Unable to remove nonexistent key: b: missing value"
        );
        assert_eq!(
            message(json!({"op": "add", "path": "/x/y", "value": 1})),
            "add operation does not apply: doc is missing path: \"/x/y\": missing value"
        );
        let whole = message(json!({"op": "add", "path": "", "value": 1}));
        assert_eq!(whole, "add operation does not apply: doc is missing path: \"\": missing value");
        assert_eq!(message(json!({"op": "put", "path": "/a"})), "Unexpected kind: put");
    }

    #[test]
    fn replacement_of_a_missing_member_adds_it() {
        let replace = |path: &str| {
            json_patch(&json!({"a": {}, "l": []}), &json!([{"op": "replace", "path": path, "value": 1}]))
        };
        assert_eq!(replace("/a/b"), Ok(json!({"a": {"b": 1}, "l": []})));
        assert!(replace("/x/y").is_err());
        assert!(replace("/l/0").is_err());
    }

    fn error(target: &Value, operations: Vec<Value>) -> String {
        json_patch(target, &Value::Array(operations)).expect_err("a limit").to_string()
    }

    #[test]
    fn copies_that_double_the_object_are_stopped() {
        let doubling = |number: usize| json!({"op": "copy", "from": "", "path": format!("/copy{number}")});
        let target = json!({"data": "x".repeat(1000)});
        let message = error(&target, (0..40).map(doubling).collect());
        assert!(message.contains("accumulated size increase of JSON copy"), "{message}");
        let same = json!({"op": "copy", "from": "/data", "path": "/copy"});
        let message = error(&target, vec![same.clone(); 5000]);
        assert!(message.contains("accumulated size increase of JSON copy"), "{message}");
        assert!(json_patch(&target, &Value::Array(vec![same; 1000])).is_ok());
    }

    #[test]
    fn values_that_are_put_into_each_other_do_not_nest_without_limit() {
        let nested = (0..100).fold(json!({}), |inner, _| json!({"a": inner}));
        let path = |levels: usize| "/a".repeat(levels);
        let copy = json!({"op": "copy", "from": "/a", "path": path(100)});
        assert!(error(&nested, vec![copy]).contains("deeper than 128 levels"));
        let add = json!({"op": "add", "path": path(100), "value": nested});
        assert!(error(&nested, vec![add]).contains("deeper than 128 levels"));
        let fold = json!([
            {"op": "add", "path": "/b", "value": nested}, {"op": "move", "from": "/b", "path": path(100)}
        ]);
        assert!(error(&nested, fold.as_array().expect("a list").clone()).contains("deeper than 128 levels"));
    }

    #[test]
    fn moves_of_large_values_are_bounded() {
        let target = json!({"a": vec![0; 3000], "b": {}});
        let there_and_back = |path: &str| {
            let moves = [
                json!({"op": "move", "from": "/a", "path": path}),
                json!({"op": "move", "from": path, "path": "/a"}),
            ];
            vec![moves; 5000].concat()
        };
        let message = error(&target, there_and_back("/b/a"));
        assert!(message.contains("more than 10000000 members and items"), "{message}");
        let sideways = json_patch(&target, &Value::Array(there_and_back("/c")));
        assert_eq!(sideways, Ok(target.clone()), "at the same level, a value nests as before");
        let few = there_and_back("/b/a")[..100].to_vec();
        assert_eq!(json_patch(&target, &Value::Array(few)), Ok(target));
    }

    #[test]
    fn moves_at_the_same_level_visit_no_values() {
        let target = json!({"a": [[1, 2], 3], "b": {}});
        let visited = |operation: Value| {
            let patch: json_patch::Patch = serde_json::from_value(json!([operation])).expect("a patch");
            let mut effort = Effort::default();
            effort.charge(&target, &patch.0[0]).expect("within the limits");
            effort.visited_values
        };
        assert_eq!(visited(json!({"op": "move", "from": "/a", "path": "/c"})), 0);
        assert_eq!(visited(json!({"op": "move", "from": "/a/0", "path": "/c"})), 0);
        assert_eq!(visited(json!({"op": "move", "from": "/a", "path": "/b/a"})), 5);
    }

    #[test]
    fn operations_and_shifted_items_are_bounded() {
        let target = json!({"list": vec![0; 20_000]});
        let remove = json!({"op": "remove", "path": "/list/0"});
        let message = error(&target, vec![remove.clone(); 10_000]);
        assert!(message.contains("shifts more than 50000000 list items"), "{message}");
        assert!(json_patch(&target, &Value::Array(vec![remove.clone(); 100])).is_ok());
        let too_many = json_patch(&target, &Value::Array(vec![remove; 10_001]));
        assert!(matches!(too_many, Err(PatchError::TooLarge(_))), "{too_many:?}");
    }
}
