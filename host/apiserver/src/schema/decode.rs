//! Type errors of built-in kinds, which Kubernetes finds while decoding and answers with 400, not 422.

use serde_json::Value;

use super::defaults::QUANTITY;
use super::node::{SchemaRef, Type};
use super::{Schema, field, format, quantity};

const QUANTITY_SYNTAX: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

impl Schema {
    /// Why `object` cannot be decoded into this built-in kind, in the words of Go's JSON decoder; none if it can, or
    /// if the kind is a custom resource (whose type errors [`Schema::validate`] reports).
    ///
    /// The server answers such an object with 400 BadRequest.
    pub fn decode_error(&self, object: &Value) -> Option<String> {
        let kind = self.built_in?;
        let wrong = mismatch(object, self.root(), kind.kind, "")?;
        Some(format!("{0} in version \"{1}\" cannot be handled as a {0}: {wrong}", kind.kind, kind.version))
    }
}

fn mismatch(value: &Value, schema: SchemaRef<'_>, owner: &str, path: &str) -> Option<String> {
    let node = schema.node();
    let fits = match value {
        Value::Null => return None,
        _ if node.int_or_string => matches!(value, Value::String(_) | Value::Number(_)),
        _ => match node.ty {
            Type::Any => true,
            Type::Object => value.is_object(),
            Type::Array => value.is_array(),
            Type::String => value.is_string(),
            Type::Integer => value.as_i64().is_some() || value.as_u64().is_some(),
            Type::Number => value.is_number(),
            Type::Boolean => value.is_boolean(),
        },
    };
    if !fits {
        let place = if path.is_empty() { "value".to_owned() } else { format!("struct field {owner}.{path}") };
        return Some(format!(
            "json: cannot unmarshal {} into Go {place} of type {}",
            json_name(value),
            go_type(schema)
        ));
    }
    if node.definition.as_deref() == Some(QUANTITY) && quantity::canonical(value).is_none() {
        return Some(QUANTITY_SYNTAX.to_owned());
    }
    if let Some(wrong) = unreadable(value, schema) {
        return Some(wrong);
    }
    match value {
        Value::Object(object) => {
            let owner = node.definition.as_deref().map_or(owner, short);
            object.iter().find_map(|(name, child)| {
                mismatch(child, schema.field(name)?, owner, &field::child(path, name))
            })
        }
        Value::Array(items) => {
            let of_items = schema.items()?;
            items.iter().find_map(|item| mismatch(item, of_items, owner, path))
        }
        _ => None,
    }
}

/// What Go's types for times, quantities and bytes refuse, although the JSON type is right.
fn unreadable(value: &Value, schema: SchemaRef<'_>) -> Option<String> {
    let node = schema.node();
    if node.definition.as_deref() == Some(QUANTITY) {
        return quantity::canonical(value).is_none().then(|| QUANTITY_SYNTAX.to_owned());
    }
    let wanted = node.checks.as_ref()?.format.as_deref()?;
    let text = value.as_str().filter(|text| !format::matches(wanted, text))?;
    match wanted {
        "byte" => {
            let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
            let at = text.bytes().position(|byte| !valid(byte)).unwrap_or(text.len() / 4 * 4);
            Some(format!("illegal base64 data at input byte {at}"))
        }
        "date-time" => Some(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )),
        _ => None,
    }
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

fn short(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// The name of the Go type behind a schema, as its decoder prints it.
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
            node.checks.as_ref().and_then(|checks| checks.format.clone()).unwrap_or_else(|| "int64".into())
        }
        Type::Number => "float64".into(),
        Type::Boolean => "bool".into(),
        Type::String | Type::Any => "string".into(),
    }
}
