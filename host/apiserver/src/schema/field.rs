//! Field errors with the messages of `k8s.io/apimachinery/pkg/util/validation/field`.
//!
//! kubectl prints the messages verbatim and users search for them, so wording and punctuation are part of the API.

use std::fmt::Write as _;

use serde_json::Value;

use crate::go;
use crate::status::Cause;

/// Reports a required field that is absent or empty.
pub fn required(path: &str, detail: &str) -> Cause {
    cause(path, "FieldValueRequired", "Required value", detail)
}

/// Reports a malformed value.
pub fn invalid(path: &str, value: &Value, detail: &str) -> Cause {
    let body = format!("Invalid value: {}", display(value));
    cause(path, "FieldValueInvalid", &body, detail)
}

/// Reports a malformed value that Go prints as `shown`.
pub fn invalid_shown(path: &str, shown: &str, detail: &str) -> Cause {
    cause(path, "FieldValueInvalid", &format!("Invalid value: {shown}"), detail)
}

/// Reports a malformed value without the value.
pub fn invalid_omitted(path: &str, detail: &str) -> Cause {
    cause(path, "FieldValueInvalid", "Invalid value", detail)
}

/// Reports a value of the JSON type `actual` instead of `expected`.
pub fn wrong_type(path: &str, expected: &str, actual: &str) -> Cause {
    let detail = format!("{path} in body must be of type {expected}: {actual:?}");
    let body = format!("Invalid value: {actual:?}");
    cause(path, "FieldValueTypeInvalid", &body, &detail)
}

/// Reports a value that is not one of `supported`.
pub fn not_supported<S: AsRef<str>>(path: &str, value: &Value, supported: &[S]) -> Cause {
    let mut detail = String::new();
    for (index, value) in supported.iter().enumerate() {
        let separator = if index == 0 { "supported values: " } else { ", " };
        let _ = write!(detail, "{separator}{:?}", value.as_ref());
    }
    let body = format!("Unsupported value: {}", display(value));
    cause(path, "FieldValueNotSupported", &body, &detail)
}

/// Reports a duplicate of a value that must be unique.
pub fn duplicate(path: &str, value: &Value) -> Cause {
    cause(path, "FieldValueDuplicate", &format!("Duplicate value: {}", display(value)), "")
}

/// Reports a duplicate of a value that Go prints as `shown`.
pub fn duplicate_shown(path: &str, shown: &str) -> Cause {
    cause(path, "FieldValueDuplicate", &format!("Duplicate value: {shown}"), "")
}

/// Reports an unsupported value that Go prints as `shown`.
pub fn not_supported_shown(path: &str, shown: &str, supported: &[&str]) -> Cause {
    let supported: Vec<String> = supported.iter().map(|value| go::quoted(value)).collect();
    let detail = format!("supported values: {}", supported.join(", "));
    cause(path, "FieldValueNotSupported", &format!("Unsupported value: {shown}"), &detail)
}

/// Reports a duplicate value without the value.
pub fn duplicate_omitted(path: &str) -> Cause {
    cause(path, "FieldValueDuplicate", "Duplicate value", "")
}

/// Reports a value that is well-formed but not allowed.
pub fn forbidden(path: &str, detail: &str) -> Cause {
    cause(path, "FieldValueForbidden", "Forbidden", detail)
}

/// Reports a string that is longer than `max` bytes.
pub fn too_long(path: &str, max: u64) -> Cause {
    let unit = if max == 1 { "byte" } else { "bytes" };
    cause(path, "FieldValueTooLong", "Too long", &format!("may not be more than {max} {unit}"))
}

/// Reports a list or map with more than `max` entries.
pub fn too_many(path: &str, actual: usize, max: u64) -> Cause {
    let unit = if max == 1 { "item" } else { "items" };
    let body = format!("Too many: {actual}");
    cause(path, "FieldValueTooMany", &body, &format!("must have at most {max} {unit}"))
}

/// Reports a reference to an object that does not exist.
pub fn not_found(path: &str, value: &Value) -> Cause {
    cause(path, "FieldValueNotFound", &format!("Not found: {}", display(value)), "")
}

/// Returns the path of a field: `parent.name`, or `name` at the root.
pub fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { [parent, ".", name].concat() }
}

/// Returns the path of an entry of a map: `parent[key]`.
pub fn key(parent: &str, key: &str) -> String {
    format!("{parent}[{key}]")
}

/// Returns the path of an item of a list: `parent[3]`.
pub fn index(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

fn cause(path: &str, reason: &str, body: &str, detail: &str) -> Cause {
    let message = if detail.is_empty() { body.to_owned() } else { format!("{body}: {detail}") };
    // The path of the object itself is a nil `*field.Path` in Go, which prints as "<nil>".
    let field = if path.is_empty() { "<nil>" } else { path };
    Cause { field: field.to_owned(), reason: reason.to_owned(), message }
}

/// Formats a value: scalars like Go's `%q` and `%v`, others as JSON.
fn display(value: &Value) -> String {
    match value {
        Value::String(text) => go::quoted(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(cause: &Cause) -> String {
        format!("{}: {}", cause.field, cause.message)
    }

    #[test]
    fn messages_match_apimachinery() {
        let replicas = wrong_type("spec.replicas", "integer", "string");
        assert_eq!(
            text(&replicas),
            r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#
        );
        assert_eq!(text(&required("spec.image", "")), "spec.image: Required value");
        assert_eq!(
            text(&not_supported("spec.tier", &json!("x"), &["a", "b"])),
            r#"spec.tier: Unsupported value: "x": supported values: "a", "b""#
        );
        assert_eq!(text(&too_long("name", 1)), "name: Too long: may not be more than 1 byte");
        assert_eq!(text(&too_many("l", 3, 2)), "l: Too many: 3: must have at most 2 items");
        assert_eq!(text(&duplicate("l[1]", &json!({"a": 1}))), r#"l[1]: Duplicate value: {"a":1}"#);
    }
}
