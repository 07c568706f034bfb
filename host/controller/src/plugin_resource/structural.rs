//! Converts a JSON Schema that schemars generates into a structural schema, the form that a CRD needs. Pure.
//!
//! References are replaced by what they refer to. Alternatives of an enum become one schema, because a structural schema has one type per value.

use serde_json::{Map, Value, json};

/// Limit for the length of a text without a narrower one.
const MAX_TEXT: u64 = 1024;
/// Limit for the entries of a list without a narrower one.
const MAX_ENTRIES: u64 = 256;

/// Keywords that mean the same in both.
const KEPT: [&str; 10] = [
    "type",
    "enum",
    "required",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
];

/// Converts a schema. Every text and every list of the result has a limit.
pub(super) fn structural(schema: &Value) -> Value {
    convert(schema, &schema["$defs"])
}

fn convert(schema: &Value, definitions: &Value) -> Value {
    let schema = resolve(schema, definitions);
    let alternatives = ["oneOf", "anyOf"].into_iter().find_map(|keyword| schema[keyword].as_array());
    let mut converted = match alternatives {
        Some(alternatives) => one_of(alternatives, definitions),
        None => Map::new(),
    };
    if let Some(description) = schema["description"].as_str() {
        converted.insert("description".to_owned(), description.replace('\n', " ").into());
    }
    for keyword in KEPT.iter().filter(|keyword| !schema[**keyword].is_null()) {
        converted.insert((*keyword).to_owned(), schema[*keyword].clone());
    }
    // An optional value is absent and not null.
    if let Some(types) = schema["type"].as_array() {
        let other = types.iter().find(|name| *name != "null").cloned().unwrap_or_default();
        converted.insert("type".to_owned(), other);
    }
    if let Some(properties) = schema["properties"].as_object() {
        let properties: Map<String, Value> =
            properties.iter().map(|(name, value)| (name.clone(), convert(value, definitions))).collect();
        converted.insert("properties".to_owned(), properties.into());
    }
    if !schema["items"].is_null() {
        converted.insert("items".to_owned(), convert(&schema["items"], definitions));
    }
    match &schema["additionalProperties"] {
        Value::Bool(true) => {
            converted.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        }
        Value::Object(_) => {
            let values = convert(&schema["additionalProperties"], definitions);
            converted.insert("additionalProperties".to_owned(), values);
        }
        _ => {}
    }
    add_limits(&mut converted, schema["format"].as_str());
    converted.into()
}

/// Follows references. The description beside a reference replaces that of the definition.
fn resolve(schema: &Value, definitions: &Value) -> Value {
    let reference = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/"));
    let Some(name) = reference else { return schema.clone() };
    let mut resolved = resolve(&definitions[name], definitions);
    if let (Some(description), Value::Object(resolved)) = (schema.get("description"), &mut resolved) {
        resolved.insert("description".to_owned(), description.clone());
    }
    resolved
}

/// Converts the alternatives of an enum: constants become `enum`, and objects one object with the members of all.
fn one_of(alternatives: &[Value], definitions: &Value) -> Map<String, Value> {
    let present: Vec<Value> = alternatives
        .iter()
        .map(|alternative| resolve(alternative, definitions))
        .filter(|alternative| alternative["type"] != "null")
        .collect();
    if let [only] = present.as_slice() {
        return convert(only, definitions).as_object().cloned().unwrap_or_default();
    }
    let mut merged = Map::new();
    let constants = present.iter().flat_map(constants).collect::<Vec<_>>();
    if !constants.is_empty() {
        merged.insert("type".to_owned(), "string".into());
        merged.insert("enum".to_owned(), constants.into());
        return merged;
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    for alternative in &present {
        let converted = convert(alternative, definitions);
        properties.extend(converted["properties"].as_object().cloned().unwrap_or_default());
        required.push(json!({"required": converted["required"]}));
    }
    merged.insert("type".to_owned(), "object".into());
    merged.insert("properties".to_owned(), properties.into());
    if required.iter().all(|alternative| alternative["required"].is_array()) {
        merged.insert("oneOf".to_owned(), required.into());
    }
    merged
}

fn constants(alternative: &Value) -> Vec<Value> {
    match (&alternative["const"], &alternative["enum"]) {
        (Value::Null, Value::Array(values)) => values.clone(),
        (Value::Null, _) => Vec::new(),
        (value, _) => vec![value.clone()],
    }
}

fn add_limits(schema: &mut Map<String, Value>, format: Option<&str>) {
    let ty = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let (keyword, value): (&str, Value) = match (ty, format) {
        ("string", _) if !schema.contains_key("enum") => ("maxLength", MAX_TEXT.into()),
        ("array", _) => ("maxItems", MAX_ENTRIES.into()),
        ("integer", Some("uint32")) => ("maximum", u32::MAX.into()),
        ("integer", Some("uint64" | "int64")) => ("format", "int64".into()),
        _ => return,
    };
    schema.entry(keyword).or_insert(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_options_and_defaults_are_replaced() {
        let schema = json!({
            "$schema": "x", "title": "x", "type": "object", "additionalProperties": false,
            "$defs": {"Inner": {"type": "object", "description": "Inner.", "properties": {"n": {"type": ["integer", "null"], "format": "uint32", "default": null}}}},
            "properties": {
                "a": {"$ref": "#/$defs/Inner", "description": "Outer\ntext."},
                "b": {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}]},
                "c": {"type": "array", "default": [], "items": {"type": "string"}},
                "d": {"type": "object", "additionalProperties": true},
                "e": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
            },
        });
        let number = json!({"type": "integer", "maximum": u32::MAX});
        assert_eq!(
            structural(&schema),
            json!({"type": "object", "properties": {
                "a": {"type": "object", "description": "Outer text.", "properties": {"n": number}},
                "b": {"type": "object", "description": "Inner.", "properties": {"n": number}},
                "c": {"type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 1024}},
                "d": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "e": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
            }})
        );
    }

    #[test]
    fn alternatives_become_one_schema() {
        let words = json!({"oneOf": [{"const": "a", "type": "string", "description": "A."}, {"enum": ["b", "c"], "type": "string"}]});
        assert_eq!(structural(&words), json!({"type": "string", "enum": ["a", "b", "c"]}));
        let objects = json!({"description": "One.", "oneOf": [
            {"type": "object", "properties": {"percent": {"type": "integer"}}, "required": ["percent"], "additionalProperties": false},
            {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}}}, "required": ["names"]},
        ]});
        assert_eq!(
            structural(&objects),
            json!({
                "type": "object", "description": "One.",
                "properties": {
                    "percent": {"type": "integer"},
                    "names": {"type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 1024}},
                },
                "oneOf": [{"required": ["percent"]}, {"required": ["names"]}],
            })
        );
    }
}
