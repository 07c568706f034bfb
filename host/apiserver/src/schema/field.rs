//! Field errors, worded as `k8s.io/apimachinery/pkg/util/validation/field` words them.
//!
//! kubectl prints these texts verbatim and people search for them, so wording and punctuation are part of the API.

use std::fmt::Write as _;

use serde_json::Value;

use crate::status::Cause;

/// A required field is absent or empty.
pub fn required(path: &str, detail: &str) -> Cause {
    cause(path, "FieldValueRequired", "Required value", detail)
}

/// A value is malformed.
pub fn invalid(path: &str, value: &Value, detail: &str) -> Cause {
    let body = format!("Invalid value: {}", shown(value));
    cause(path, "FieldValueInvalid", &body, detail)
}

/// A value has another JSON type than its schema wants. `actual` is the name of the type that was found.
pub fn wrong_type(path: &str, expected: &str, actual: &str) -> Cause {
    let detail = format!("{path} in body must be of type {expected}: {actual:?}");
    let body = format!("Invalid value: {actual:?}");
    cause(path, "FieldValueTypeInvalid", &body, &detail)
}

/// A value is none of an enumeration's.
pub fn not_supported<S: AsRef<str>>(path: &str, value: &Value, supported: &[S]) -> Cause {
    let mut detail = String::new();
    for (index, one) in supported.iter().enumerate() {
        let lead = if index == 0 { "supported values: " } else { ", " };
        let _ = write!(detail, "{lead}{:?}", one.as_ref());
    }
    let body = format!("Unsupported value: {}", shown(value));
    cause(path, "FieldValueNotSupported", &body, &detail)
}

/// A value appears twice where it may appear once.
pub fn duplicate(path: &str, value: &Value) -> Cause {
    cause(path, "FieldValueDuplicate", &format!("Duplicate value: {}", shown(value)), "")
}

/// A value that would be well-formed is not allowed here.
pub fn forbidden(path: &str, detail: &str) -> Cause {
    cause(path, "FieldValueForbidden", "Forbidden", detail)
}

/// A string is longer than `max` bytes.
pub fn too_long(path: &str, max: u64) -> Cause {
    let unit = if max == 1 { "byte" } else { "bytes" };
    cause(path, "FieldValueTooLong", "Too long", &format!("may not be more than {max} {unit}"))
}

/// A list or map has more entries than `max`.
pub fn too_many(path: &str, actual: usize, max: u64) -> Cause {
    let unit = if max == 1 { "item" } else { "items" };
    let body = format!("Too many: {actual}");
    cause(path, "FieldValueTooMany", &body, &format!("must have at most {max} {unit}"))
}

/// An object that the value refers to does not exist.
pub fn not_found(path: &str, value: &Value) -> Cause {
    cause(path, "FieldValueNotFound", &format!("Not found: {}", shown(value)), "")
}

/// `parent.name`, or `name` at the root.
pub fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// `parent[key]`: an entry of a map.
pub fn key(parent: &str, key: &str) -> String {
    format!("{parent}[{key}]")
}

/// `parent[3]`: an item of a list.
pub fn index(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

fn cause(path: &str, reason: &str, body: &str, detail: &str) -> Cause {
    let message = if detail.is_empty() { body.to_owned() } else { format!("{body}: {detail}") };
    // An error about the object as a whole has "<nil>" for its field, as the zero value of Go's field.Path prints.
    let field = if path.is_empty() { "<nil>" } else { path };
    Cause { field: field.to_owned(), reason: reason.to_owned(), message }
}

/// A value as Go's `%q` and `%v` show scalars, and as JSON otherwise.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
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
    fn errors_read_like_those_of_kubernetes() {
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
