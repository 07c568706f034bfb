//! OpenAPI v2 as protobuf: the message `Document` of `openapiv2/OpenAPIv2.proto` of gnostic, which client-go's discovery client reads.

use serde_json::Value;

use crate::schema::protobuf_wire::{put_bytes, put_fixed, put_varint};

/// The methods of a path item, with the numbers of their fields.
const METHODS: [(&str, u64); 5] = [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)];

/// Returns a v2 document as protobuf.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, 1, &document["swagger"]);
    let info = message(|info| {
        put_text(info, 1, &document["info"]["title"]);
        put_text(info, 2, &document["info"]["version"]);
    });
    put_bytes(&mut out, 2, &info);
    let paths = message(|paths| {
        for (path, item) in members(&document["paths"]) {
            put_named(paths, 2, path, &path_item(item));
        }
    });
    put_bytes(&mut out, 8, &paths);
    let definitions = message(|definitions| {
        for (name, definition) in members(&document["definitions"]) {
            put_named(definitions, 1, name, &schema(definition));
        }
    });
    put_bytes(&mut out, 9, &definitions);
    out
}

fn path_item(item: &Value) -> Vec<u8> {
    message(|out| {
        for (method, number) in METHODS {
            if item[method].is_object() {
                put_bytes(out, number, &operation(&item[method]));
            }
        }
        for parameter in items(&item["parameters"]) {
            put_bytes(out, 9, &self::parameter(parameter));
        }
    })
}

fn operation(operation: &Value) -> Vec<u8> {
    message(|out| {
        for (name, number) in [("produces", 6), ("consumes", 7)] {
            items(&operation[name]).iter().for_each(|text| put_text(out, number, text));
        }
        for parameter in items(&operation["parameters"]) {
            put_bytes(out, 8, &self::parameter(parameter));
        }
        let responses = message(|responses| {
            for (code, response) in members(&operation["responses"]) {
                let response = message(|out| {
                    put_text(out, 1, &response["description"]);
                    if response["schema"].is_object() {
                        let choice = message(|choice| put_bytes(choice, 1, &schema(&response["schema"])));
                        put_bytes(out, 2, &choice);
                    }
                });
                put_named(responses, 1, code, &message(|choice| put_bytes(choice, 1, &response)));
            }
        });
        put_bytes(out, 9, &responses);
        put_extensions(out, 13, operation);
    })
}

/// Returns a `ParametersItem`: a choice of a choice, of which a parameter outside of the body is another choice.
fn parameter(parameter: &Value) -> Vec<u8> {
    let is_required = parameter["required"] == true;
    let choice = message(|choice| match parameter["in"].as_str() {
        Some("body") => {
            let body = message(|out| {
                put_text(out, 1, &parameter["description"]);
                put_text(out, 2, &parameter["name"]);
                put_text(out, 3, &parameter["in"]);
                put_varint(out, 4, is_required.into());
                put_bytes(out, 5, &schema(&parameter["schema"]));
            });
            put_bytes(choice, 1, &body);
        }
        place => {
            // The fields of both kinds of parameters differ in the number of the type.
            let (kind, type_number) = if place == Some("path") { (4, 5) } else { (3, 6) };
            let plain = message(|out| {
                put_varint(out, 1, is_required.into());
                put_text(out, 2, &parameter["in"]);
                put_text(out, 3, &parameter["description"]);
                put_text(out, 4, &parameter["name"]);
                put_text(out, type_number, &parameter["type"]);
            });
            put_bytes(choice, 2, &message(|out| put_bytes(out, kind, &plain)));
        }
    });
    message(|out| put_bytes(out, 1, &choice))
}

fn schema(schema: &Value) -> Vec<u8> {
    message(|out| {
        for (name, number) in [("$ref", 1), ("format", 2), ("title", 3), ("description", 4), ("pattern", 13)]
        {
            put_text(out, number, &schema[name]);
        }
        put_any(out, 5, &schema["default"]);
        for (name, number) in [("multipleOf", 6), ("maximum", 7), ("minimum", 9)] {
            if let Some(limit) = schema[name].as_f64() {
                put_fixed(out, number, limit.to_bits());
            }
        }
        for (name, number) in [("exclusiveMaximum", 8), ("exclusiveMinimum", 10), ("uniqueItems", 16)] {
            if schema[name] == true {
                put_varint(out, number, 1);
            }
        }
        for (name, number) in [
            ("maxLength", 11),
            ("minLength", 12),
            ("maxItems", 14),
            ("minItems", 15),
            ("maxProperties", 17),
            ("minProperties", 18),
        ] {
            if let Some(limit) = schema[name].as_u64() {
                put_varint(out, number, limit);
            }
        }
        items(&schema["required"]).iter().for_each(|name| put_text(out, 19, name));
        items(&schema["enum"]).iter().for_each(|value| put_any(out, 20, value));
        put_additional_properties(out, &schema["additionalProperties"]);
        let has_items = schema["items"].is_object();
        // Clients refuse lists without a type of items.
        if schema["type"].is_string() && (schema["type"] != "array" || has_items) {
            put_bytes(out, 22, &message(|kind| put_text(kind, 1, &schema["type"])));
        }
        if has_items {
            put_bytes(out, 23, &message(|item| put_bytes(item, 1, &self::schema(&schema["items"]))));
        }
        items(&schema["allOf"]).iter().for_each(|part| put_bytes(out, 24, &self::schema(part)));
        if schema["properties"].is_object() {
            let properties = message(|out| {
                for (name, property) in members(&schema["properties"]) {
                    put_named(out, 1, name, &self::schema(property));
                }
            });
            put_bytes(out, 25, &properties);
        }
        put_extensions(out, 31, schema);
    })
}

fn put_additional_properties(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(allowed) => {
            put_bytes(out, 21, &message(|choice| put_varint(choice, 2, (*allowed).into())));
        }
        Value::Object(_) => put_bytes(out, 21, &message(|choice| put_bytes(choice, 1, &schema(value)))),
        _ => {}
    }
}

/// Appends the members whose names begin with `x-`.
fn put_extensions(out: &mut Vec<u8>, number: u64, object: &Value) {
    for (name, value) in members(object).filter(|(name, _)| name.starts_with("x-")) {
        put_named(out, number, name, &message(|any| put_bytes(any, 2, value.to_string().as_bytes())));
    }
}

/// Appends a value of any type, as YAML, of which JSON is a part.
fn put_any(out: &mut Vec<u8>, number: u64, value: &Value) {
    if !value.is_null() {
        put_bytes(out, number, &message(|any| put_bytes(any, 2, value.to_string().as_bytes())));
    }
}

/// Appends an entry of a map: a message with a name and a value.
fn put_named(out: &mut Vec<u8>, number: u64, name: &str, value: &[u8]) {
    let entry = message(|entry| {
        put_bytes(entry, 1, name.as_bytes());
        put_bytes(entry, 2, value);
    });
    put_bytes(out, number, &entry);
}

fn put_text(out: &mut Vec<u8>, number: u64, text: &Value) {
    if let Some(text) = text.as_str() {
        put_bytes(out, number, text.as_bytes());
    }
}

fn message(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    fill(&mut out);
    out
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_are_messages_of_gnostic() {
        let encoded = schema(&json!({"type": "string", "x-a": {"b": 1}}));
        // The field 22 has the type, the field 31 a name and YAML.
        let expected = [
            &[0xb2, 0x01, 0x08, 0x0a, 0x06][..],
            b"string",
            &[0xfa, 0x01, 0x10, 0x0a, 0x03],
            b"x-a",
            &[0x12, 0x09, 0x12, 0x07],
            b"{\"b\":1}",
        ];
        assert_eq!(encoded, expected.concat());
        assert_eq!(schema(&json!({"type": "array"})), [0_u8; 0], "a list needs a type of items");
    }
}
