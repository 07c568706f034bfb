//! Type errors of built-in kinds. Kubernetes finds them while decoding and responds with 400 instead of 422.

use serde_json::Value;

use super::defaults::QUANTITY;
use super::node::{SchemaRef, Type};
use super::path::Path;
use super::{Schema, format, object_meta, quantity};

const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";

impl Schema {
    /// Returns the error of Go's JSON decoder if `object` cannot be decoded into this kind. Of a custom resource, only the metadata is decoded;
    /// [`Schema::validate`] reports its other type errors.
    ///
    /// The server responds to such an object with 400 BadRequest.
    pub fn decode_error(&self, object: &Value) -> Option<String> {
        let error = self.json_error(object)?;
        let text = |name: &str| object[name].as_str().unwrap_or_default();
        let (kind, version) = match self.built_in {
            Some(kind) => (kind.kind, kind.version),
            None => (text("kind"), text("apiVersion").rsplit('/').next().unwrap_or_default()),
        };
        Some(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"))
    }

    /// Returns the error of Go's JSON decoder as [`Schema::decode_error`] does, without the kind.
    pub(crate) fn json_error(&self, object: &Value) -> Option<String> {
        match self.built_in {
            Some(kind) => find_error(object, self.root(), kind.kind, Path::Root),
            None => find_error(object.get("metadata")?, object_meta(), "ObjectMeta", Path::Root),
        }
    }

    /// Returns the error of `runtime.DefaultUnstructuredConverter` if `object` cannot be converted to this built-in kind, which happens to the
    /// result of a strategic merge patch.
    pub(crate) fn conversion_error(&self, object: &Value) -> Option<String> {
        self.built_in?;
        conversion_error(object, self.root()).or_else(|| self.json_error(object))
    }
}

/// Returns whether a server-side apply accepts any scalar for a field of a built-in kind: quantities, numbers or names of ports, and times.
pub(crate) fn is_untyped_scalar(schema: SchemaRef<'_>, built_in: bool) -> bool {
    let node = schema.node();
    let format = node.validations.as_ref().and_then(|validations| validations.format.as_deref());
    built_in
        && (node.int_or_string || node.definition.as_deref() == Some(QUANTITY) || format == Some("date-time"))
}

/// Returns the first value that has another type than its field.
fn conversion_error(value: &Value, schema: SchemaRef<'_>) -> Option<String> {
    let node = schema.node();
    let found = match value {
        Value::Null => return None,
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    let is_scalar_of_go = node.int_or_string || node.definition.as_deref() == Some(QUANTITY);
    let problem = match node.ty {
        _ if is_scalar_of_go => return None,
        Type::Object if !value.is_object() && schema.field("*").is_none() => {
            Some(format!("cannot restore struct from: {found}"))
        }
        Type::Object if !value.is_object() => Some(format!("cannot restore map from {found}")),
        Type::Array if !value.is_array() => Some(format!("cannot restore slice from {found}")),
        Type::String if !value.is_string() => Some("unrecognized type: string".to_owned()),
        Type::Boolean if !value.is_boolean() => Some("unrecognized type: bool".to_owned()),
        Type::Integer if !value.is_number() => Some(format!("unrecognized type: {}", go_type(schema))),
        _ => None,
    };
    if problem.is_some() {
        return problem;
    }
    match value {
        Value::Object(object) => {
            object.iter().find_map(|(name, child)| conversion_error(child, schema.field(name)?))
        }
        Value::Array(items) => {
            let item_schema = schema.items()?;
            items.iter().find_map(|item| conversion_error(item, item_schema))
        }
        _ => None,
    }
}

/// Returns the first error in `value`, which is at `path` of the Go struct `owner`.
fn find_error(value: &Value, schema: SchemaRef<'_>, owner: &str, path: Path<'_>) -> Option<String> {
    let node = schema.node();
    let has_type = match value {
        Value::Null => return None,
        _ if node.int_or_string => matches!(value, Value::String(_) | Value::Number(_)),
        _ => match node.ty {
            Type::Any => true,
            Type::Object => value.is_object(),
            Type::Array => value.is_array(),
            Type::String => value.is_string(),
            Type::Integer => is_integer(value, schema),
            Type::Number => value.is_number(),
            Type::Boolean => value.is_boolean(),
        },
    };
    if !has_type {
        let target = if path.is_root() { "value".to_owned() } else { format!("struct field {owner}.{path}") };
        return Some(format!(
            "json: cannot unmarshal {} into Go {target} of type {}",
            match value {
                Value::Number(number) if node.ty == Type::Integer => format!("number {number}"),
                _ => json_name(value),
            },
            go_type(schema)
        ));
    }
    if node.definition.as_deref() == Some(QUANTITY)
        && let Some(error) = quantity::error(value)
    {
        return Some(error.to_owned());
    }
    if let Some(error) = syntax_error(value, schema) {
        return Some(error);
    }
    match value {
        Value::Object(object) => {
            let owner = node.definition.as_deref().map_or(owner, short_name);
            let is_struct = node.definition.is_some();
            object.iter().find_map(|(name, child)| {
                // As in Go, the keys of a map are no part of the path.
                let at = if is_struct { Path::Field(&path, name) } else { path };
                find_error(child, schema.field(name)?, owner, at)
            })
        }
        Value::Array(items) => {
            let item_schema = schema.items()?;
            items.iter().find_map(|item| find_error(item, item_schema, owner, path))
        }
        _ => None,
    }
}

/// Whether a value is a whole number that Go's type of the field can represent.
fn is_integer(value: &Value, schema: SchemaRef<'_>) -> bool {
    let format = schema.node().validations.as_ref().and_then(|validations| validations.format.as_deref());
    match format {
        Some("int32") => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        _ => value.as_i64().is_some() || value.as_u64().is_some(),
    }
}

/// Returns the error of Go's types for times, quantities and bytes for a value of the right JSON type.
fn syntax_error(value: &Value, schema: SchemaRef<'_>) -> Option<String> {
    let node = schema.node();
    if node.definition.as_deref() == Some(QUANTITY) {
        return quantity::error(value).map(str::to_owned);
    }
    let format = node.validations.as_ref()?.format.as_deref()?;
    if node.definition.as_deref() == Some(MICRO_TIME)
        && let Some(error) = value.as_str().and_then(microseconds_error)
    {
        return Some(error);
    }
    let text = value.as_str().filter(|text| !format::matches(format, text))?;
    match format {
        "byte" => {
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
            let position = text.bytes().position(|byte| !is_valid(byte)).unwrap_or(text.len() / 4 * 4);
            Some(format!("illegal base64 data at input byte {position}"))
        }
        "date-time" => Some(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )),
        _ => None,
    }
}

/// Returns the error of Go's type for times with microseconds for a time that has no six digits of them.
fn microseconds_error(text: &str) -> Option<String> {
    const SECONDS: usize = "2006-01-02T15:04:05".len();
    let rest = text.get(SECONDS..).filter(|_| format::matches("date-time", text))?;
    let digits =
        rest.strip_prefix('.').map_or(0, |fraction| fraction.bytes().take_while(u8::is_ascii_digit).count());
    let (rest, expected) = match digits {
        6 => return None,
        0..6 => (rest, ".000000"),
        _ => (&rest[1 + 6..], "Z07:00"),
    };
    let layout = "2006-01-02T15:04:05.000000Z07:00";
    Some(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {expected:?}"))
}

fn json_name(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(number) if number.is_f64() => format!("number {number}"),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

/// Returns the name of a definition without its package.
fn short_name(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// Returns the name of a schema's Go type, as Go's decoder prints it.
fn go_type(schema: SchemaRef<'_>) -> String {
    let node = schema.node();
    if let Some(definition) = &node.definition {
        let mut parts = definition.rsplit('.');
        let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        return format!("{package}.{name}");
    }
    match node.ty {
        Type::Array => format!("[]{}", schema.items().map_or_else(|| "interface {}".into(), go_type)),
        Type::Object => match schema.field("*") {
            Some(values) => format!("map[string]{}", go_type(values)),
            None => "map[string]interface {}".into(),
        },
        Type::Integer => {
            let format = node.validations.as_ref().and_then(|validations| validations.format.clone());
            format.unwrap_or_else(|| "int64".into())
        }
        Type::Number => "float64".into(),
        Type::Boolean => "bool".into(),
        Type::String | Type::Any => "string".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_microseconds_have_six_digits_of_them() {
        assert_eq!(microseconds_error("2026-01-01T00:00:00.000001Z"), None);
        let problem = |time: &str, rest: &str, expected: &str| {
            format!(
                "parsing time {time:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest:?} as {expected:?}"
            )
        };
        for (time, rest, expected) in [
            ("2026-01-01T00:00:00Z", "Z", ".000000"),
            ("2026-01-01T00:00:00.5Z", ".5Z", ".000000"),
            ("2026-01-01T00:00:00.0000001Z", "1Z", "Z07:00"),
        ] {
            assert_eq!(microseconds_error(time), Some(problem(time, rest, expected)));
        }
    }
}
