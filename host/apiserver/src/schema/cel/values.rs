//! Conversion of objects to CEL values by their schema.

use std::collections::HashMap;
use std::sync::Arc;

use pilothouse_cel::{Key, Map, Value as CelValue, base64_bytes, duration, from_json, timestamp};
use serde_json::Value;

use crate::schema::node::{AdditionalProperties, SchemaRef, Type};

/// A value of an object, and its CEL form once a rule at or above the value needed it. All rules below share that form.
#[derive(Clone)]
pub(super) struct Pair<'a> {
    pub(super) json: &'a Value,
    cel: Option<CelValue>,
}

impl<'a> Pair<'a> {
    pub(super) fn new(json: &'a Value) -> Self {
        Self { json, cel: None }
    }

    /// Returns the CEL form, and converts the value if nothing has done so yet.
    pub(super) fn cel_value(&mut self, schema: SchemaRef<'_>) -> CelValue {
        self.cel.get_or_insert_with(|| to_cel(self.json, Some(schema))).clone()
    }

    /// Returns a member of the value, whose schema is `schema`.
    pub(super) fn member<'m>(&self, schema: SchemaRef<'_>, name: &str, json: &'m Value) -> Pair<'m> {
        let cel = match &self.cel {
            Some(CelValue::Map(map)) => map.map.get(&key(name, Some(schema))).cloned(),
            _ => None,
        };
        Pair { json, cel }
    }

    /// Returns the member that this old value has, unless it is null.
    pub(super) fn old_member(&self, schema: SchemaRef<'_>, name: &str) -> Option<Pair<'a>> {
        let json = self.json.get(name).filter(|json| !json.is_null())?;
        Some(self.member(schema, name, json))
    }

    /// Returns an item of the list.
    pub(super) fn item<'m>(&self, index: usize, json: &'m Value) -> Pair<'m> {
        let cel = match &self.cel {
            Some(CelValue::List(list)) => list.get(index).cloned(),
            _ => None,
        };
        Pair { json, cel }
    }
}

fn to_cel(value: &Value, schema: Option<SchemaRef<'_>>) -> CelValue {
    match value {
        Value::String(text) => text_to_cel(text, schema),
        Value::Array(items) => {
            let item_schema = schema.and_then(SchemaRef::items);
            CelValue::List(Arc::new(items.iter().map(|item| to_cel(item, item_schema)).collect()))
        }
        Value::Object(object) => {
            let mut entries = HashMap::with_capacity(object.len());
            for (name, child) in object {
                let child_schema = schema.and_then(|schema| schema.field(name));
                let child = to_cel(child, child_schema);
                if is_keyword(name) && !is_map(schema) {
                    entries.insert(Key::String(Arc::new(name.clone())), child.clone());
                }
                entries.insert(key(name, schema), child);
            }
            if schema.is_some_and(|schema| schema.node().embedded) {
                let text_key = |name: &str| Key::String(Arc::new(name.to_owned()));
                for name in ["apiVersion", "kind"] {
                    entries.entry(text_key(name)).or_insert_with(|| CelValue::from(""));
                }
                let empty = || CelValue::Map(Map { map: Arc::new(HashMap::new()) });
                entries.entry(text_key("metadata")).or_insert_with(empty);
            }
            CelValue::Map(Map { map: Arc::new(entries) })
        }
        Value::Number(number) if schema.is_some_and(|schema| schema.node().ty == Type::Number) => {
            // Otherwise the type of the value would depend on whether the number is whole.
            number.as_f64().map_or_else(|| from_json(value.clone()), CelValue::Float)
        }
        other => from_json(other.clone()),
    }
}

/// Converts a text by its `format`. One that does not have its format stays a text; validation reports it.
fn text_to_cel(text: &str, schema: Option<SchemaRef<'_>>) -> CelValue {
    let node = schema.map(SchemaRef::node).filter(|node| !node.int_or_string);
    let validations = node.and_then(|node| node.validations.as_ref());
    let converted = match validations.and_then(|validations| validations.format.as_deref()) {
        Some("date-time") => timestamp(text),
        Some("date") => timestamp(&format!("{text}T00:00:00Z")),
        Some("duration") => duration(text),
        Some("byte") => base64_bytes(text),
        _ => None,
    };
    converted.unwrap_or_else(|| CelValue::from(text))
}

/// Returns the key of a member. Names of fields are escaped so that expressions can contain them; the keys of maps are data.
fn key(name: &str, schema: Option<SchemaRef<'_>>) -> Key {
    Key::String(Arc::new(if is_map(schema) { name.to_owned() } else { escape(name) }))
}

/// Whether the members of an object are data rather than fields.
fn is_map(schema: Option<SchemaRef<'_>>) -> bool {
    schema.is_some_and(|schema| schema.node().additional != AdditionalProperties::Forbidden)
}

/// Whether the name is a keyword of CEL. Expressions can select such a field by its own name, too, except `true`, `false`, `null` and `in`.
pub(super) fn is_keyword(name: &str) -> bool {
    RESERVED.contains(&name)
}

const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Escapes the name of a field as Kubernetes does.
pub(super) fn escape(name: &str) -> String {
    if is_keyword(name) {
        return format!("__{name}__");
    }
    if !name.contains(['_', '.', '-', '/']) {
        return name.to_owned();
    }
    let escaped = name.replace("__", "__underscores__");
    escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}

/// Returns the name of a field that has this escaped name, if there is one.
pub(super) fn unescape(escaped: &str) -> String {
    let reserved = escaped.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(name) = reserved.filter(|name| is_keyword(name)) {
        return name.to_owned();
    }
    let name = escaped.replace("__dot__", ".").replace("__dash__", "-").replace("__slash__", "/");
    name.replace("__underscores__", "__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_are_escaped_as_in_kubernetes() {
        for (name, escaped) in [
            ("replicas", "replicas"),
            ("max_surge", "max_surge"),
            ("a__b", "a__underscores__b"),
            ("x-prop", "x__dash__prop"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("namespace", "__namespace__"),
            ("default", "default"),
        ] {
            assert_eq!(escape(name), escaped);
            assert_eq!(unescape(escaped), name);
        }
    }
}
