//! Encodes objects, lists, errors and watch events in Kubernetes' protobuf encoding.
//!
//! The JSON is that of this server: objects that were validated, and the documents about them. A value that the schema
//! does not describe is an error, so that no client gets an object with missing fields.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Map, Value};

use super::wire::{put_bytes, put_fixed, put_varint};
use super::{Field, MAGIC, ProtobufError, SchemaRef, Type, field_table, has_protobuf, json_schema};
use super::{Schema, list_meta, object_meta, status};

/// The members that are encoded outside the message of an object.
const TYPE_META: [&str; 2] = ["apiVersion", "kind"];

/// The number of the `metadata` of every object and list.
const METADATA: u64 = 1;
/// The number of the `items` of every list.
const ITEMS: u64 = 2;

/// Encodes an object, a list or a Status, as the body of a response.
///
/// # Errors
/// [`ProtobufError::UnknownKind`] if the kind has no known field numbers, and [`ProtobufError::Unencodable`] if a field
/// has none.
pub fn encode_protobuf(value: &Value) -> Result<Vec<u8>, ProtobufError> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let mut raw = Vec::new();
    encode_kind(api_version, kind, value, &mut raw)?;
    Ok(envelope(api_version, kind, &raw))
}

/// Encodes a list, one item at a time, because all items together may be large. `head` is the list without its items.
///
/// # Errors
/// As [`encode_protobuf`].
pub(crate) fn encode_protobuf_list(
    head: &Value,
    items: impl Iterator<Item = Value>,
) -> Result<Vec<u8>, ProtobufError> {
    let text = |name: &str| head[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let item_kind = kind.strip_suffix("List").unwrap_or_default();
    let mut raw = Vec::new();
    encode_list(head, &mut raw, |_, _| Ok(()))?;
    let mut message = Vec::new();
    for item in items {
        message.clear();
        encode_kind(api_version, item_kind, &item, &mut message)?;
        put_bytes(&mut raw, ITEMS, &message);
    }
    Ok(envelope(api_version, kind, &raw))
}

/// Returns an encoded object: the magic bytes and the message `Unknown`, with the type and the message of the object.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = Vec::with_capacity(MAGIC.len() + type_meta.len() + raw.len() + 16);
    out.extend_from_slice(MAGIC);
    put_bytes(&mut out, 1, &type_meta);
    put_bytes(&mut out, 2, raw);
    // `contentEncoding` and `contentType`, which Kubernetes sends although they are empty.
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

/// Encodes a watch event as a frame: the length in four bytes, and a `WatchEvent` that contains the encoded object.
///
/// # Errors
/// As [`encode_protobuf`].
pub(crate) fn encode_protobuf_event(event: &Value) -> Result<Vec<u8>, ProtobufError> {
    let mut object = Vec::new();
    put_bytes(&mut object, 1, &encode_protobuf(&event["object"])?);
    let mut message = Vec::with_capacity(object.len() + 32);
    put_bytes(&mut message, 1, event["type"].as_str().unwrap_or_default().as_bytes());
    put_bytes(&mut message, 2, &object);
    let length = u32::try_from(message.len()).map_err(|_| unencodable("WatchEvent", "object"))?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.append(&mut message);
    Ok(frame)
}

fn unencodable(message: &str, field: &str) -> ProtobufError {
    ProtobufError::Unencodable { message: message.to_owned(), field: field.to_owned() }
}

fn unknown_kind(api_version: &str, kind: &str) -> ProtobufError {
    ProtobufError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

/// Encodes the message of an object, a list or a Status.
fn encode_kind(api_version: &str, kind: &str, value: &Value, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let unknown = || unknown_kind(api_version, kind);
    let object = value.as_object().ok_or_else(unknown)?;
    match (api_version, kind) {
        ("v1", "Status") => return encode_message(status(), object, out),
        ("meta.k8s.io/v1", "PartialObjectMetadata") => return encode_metadata(value, out),
        ("meta.k8s.io/v1", "PartialObjectMetadataList") => {
            return encode_list(value, out, encode_metadata);
        }
        _ => {}
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schema =
        |kind: &str| Schema::builtin(group, version, kind).filter(|_| has_protobuf(group, version, kind));
    if let Some(schema) = schema(kind) {
        return encode_message(schema.root(), object, out);
    }
    let item = kind.strip_suffix("List").and_then(schema).ok_or_else(unknown)?;
    encode_list(value, out, |value, out| {
        encode_message(item.root(), value.as_object().ok_or_else(unknown)?, out)
    })
}

/// Encodes the message of a `PartialObjectMetadata`.
fn encode_metadata(value: &Value, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    match &value["metadata"] {
        Value::Null => Ok(()),
        metadata => encode_field(object_meta(), metadata, METADATA, "metadata", out),
    }
}

/// Encodes the message of a list, which has the same numbers in all kinds.
fn encode_list(
    value: &Value,
    out: &mut Vec<u8>,
    encode_item: impl Fn(&Value, &mut Vec<u8>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    if value["metadata"].is_object() {
        encode_field(list_meta(), &value["metadata"], METADATA, "metadata", out)?;
    }
    let mut buffer = Vec::new();
    for item in value["items"].as_array().into_iter().flatten() {
        buffer.clear();
        encode_item(item, &mut buffer)?;
        put_bytes(out, ITEMS, &buffer);
    }
    Ok(())
}

/// Encodes the members of an object as the message of its schema's definition.
pub(super) fn encode_message(
    schema: SchemaRef<'_>,
    object: &Map<String, Value>,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let name = schema.node().definition.as_deref().unwrap_or_default();
    let mut encoded = Vec::new();
    encode_fields(name, schema, object, out, &mut encoded)?;
    for (member, value) in object {
        let member = member.as_str();
        if !value.is_null() && !TYPE_META.contains(&member) && !encoded.contains(&member) {
            return Err(unencodable(name, member));
        }
    }
    Ok(())
}

/// Encodes the members that are fields of the message `name`, and appends their names to `encoded`.
fn encode_fields<'o>(
    name: &str,
    schema: SchemaRef<'_>,
    object: &'o Map<String, Value>,
    out: &mut Vec<u8>,
    encoded: &mut Vec<&'o str>,
) -> Result<(), ProtobufError> {
    for (number, field) in field_table().get(name).into_iter().flatten() {
        match field {
            Field::Inline(inner) => {
                let mut buffer = Vec::new();
                encode_fields(inner, schema, object, &mut buffer, encoded)?;
                if !buffer.is_empty() {
                    put_bytes(out, *number, &buffer);
                }
            }
            Field::Named { name: field_name, .. } => {
                let Some((member, value)) = object.get_key_value(*field_name) else { continue };
                if value.is_null() {
                    continue;
                }
                let field_schema = schema.field(field_name).ok_or_else(|| unencodable(name, field_name))?;
                encode_field(field_schema, value, *number, field_name, out)?;
                encoded.push(member);
            }
        }
    }
    Ok(())
}

/// Encodes a field: each item of a list, each entry of a map, or a single value.
fn encode_field(
    schema: SchemaRef<'_>,
    value: &Value,
    number: u64,
    name: &str,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    if let (Type::Array, Some(items), Value::Array(list)) = (schema.node().ty, schema.items(), value) {
        return list.iter().try_for_each(|item| encode_value(items, item, number, name, out));
    }
    if let (true, Value::Object(map)) = (schema.is_map() && schema.node().definition.is_none(), value) {
        let entry_schema = schema.field("*").ok_or_else(|| unencodable("map", name))?;
        for (key, value) in map {
            let mut entry = Vec::new();
            put_bytes(&mut entry, 1, key.as_bytes());
            encode_value(entry_schema, value, 2, name, &mut entry)?;
            put_bytes(out, number, &entry);
        }
        return Ok(());
    }
    encode_value(schema, value, number, name, out)
}

/// Encodes a single value with the number of its field.
fn encode_value(
    schema: SchemaRef<'_>,
    value: &Value,
    number: u64,
    name: &str,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let node = schema.node();
    let wrong = || unencodable(node.definition.as_deref().unwrap_or(node.ty.name()), name);
    if let Some(special) = node.definition.as_deref().and_then(|definition| encode_special(definition, value))
    {
        put_bytes(out, number, &special.ok_or_else(wrong)?);
        return Ok(());
    }
    let union = node.definition.as_deref().and_then(|definition| definition.rsplit('.').next());
    if let Some(union) = union.filter(|union| json_schema::is_union(union)) {
        let message = json_schema::encode(union, value)?.ok_or_else(wrong)?;
        put_bytes(out, number, &message);
        return Ok(());
    }
    match (node.ty, value) {
        (Type::Boolean, Value::Bool(flag)) => put_varint(out, number, (*flag).into()),
        (Type::Integer, Value::Number(integer)) => {
            let bits = integer.as_i64().map(i64::cast_unsigned).or_else(|| integer.as_u64());
            put_varint(out, number, bits.ok_or_else(wrong)?);
        }
        (Type::Number, Value::Number(float)) => {
            put_fixed(out, number, float.as_f64().ok_or_else(wrong)?.to_bits());
        }
        (Type::String, Value::String(text)) => {
            let format = node.validations.as_ref().and_then(|validations| validations.format.as_deref());
            if format == Some("byte") {
                let bytes: ByteString = serde_json::from_value(value.clone()).map_err(|_| wrong())?;
                put_bytes(out, number, &bytes.0);
            } else {
                put_bytes(out, number, text.as_bytes());
            }
        }
        // A list as a map's value is a message with the items in field 1.
        (Type::Array, Value::Array(list)) => {
            let items = schema.items().ok_or_else(wrong)?;
            let mut message = Vec::new();
            list.iter().try_for_each(|item| encode_value(items, item, 1, name, &mut message))?;
            put_bytes(out, number, &message);
        }
        (Type::Object, Value::Object(object)) => {
            let mut message = Vec::new();
            encode_message(schema, object, &mut message)?;
            put_bytes(out, number, &message);
        }
        // Null items of lists have no encoding, and mean the empty message in Go.
        (Type::Object, Value::Null) => put_bytes(out, number, b""),
        _ => return Err(wrong()),
    }
    Ok(())
}

/// Encodes a value of a type whose message differs from its JSON. Returns `None` for other types, and `Some(None)` if the
/// value is not one of the type.
fn encode_special(definition: &str, value: &Value) -> Option<Option<Vec<u8>>> {
    match definition.rsplit('.').next()? {
        "Time" | "MicroTime" => Some(encode_time(value)),
        "Quantity" => Some(encode_quantity(value)),
        "IntOrString" => Some(encode_int_or_string(value)),
        "RawExtension" | "FieldsV1" | "JSON" => {
            let mut message = Vec::new();
            put_bytes(&mut message, 1, value.to_string().as_bytes());
            Some(Some(message))
        }
        _ => None,
    }
}

fn encode_time(value: &Value) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    if value.is_null() {
        return Some(message);
    }
    let time: Timestamp = value.as_str()?.parse().ok()?;
    let nanoseconds = time.as_nanosecond();
    // The fraction counts upwards, also before 1970.
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?;
    put_varint(&mut message, 1, seconds.cast_unsigned());
    put_varint(&mut message, 2, u64::try_from(nanoseconds.rem_euclid(1_000_000_000)).ok()?);
    Some(message)
}

fn encode_quantity(value: &Value) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    match value {
        Value::String(text) => put_bytes(&mut message, 1, text.as_bytes()),
        Value::Number(number) => put_bytes(&mut message, 1, number.to_string().as_bytes()),
        _ => return None,
    }
    Some(message)
}

fn encode_int_or_string(value: &Value) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let (is_string, number, text) = match value {
        Value::String(text) => (1, 0, text.as_str()),
        Value::Number(number) => (0, number.as_i64()?, ""),
        _ => return None,
    };
    put_varint(&mut message, 1, is_string);
    put_varint(&mut message, 2, number.cast_unsigned());
    put_bytes(&mut message, 3, text.as_bytes());
    Some(message)
}

#[cfg(test)]
mod tests;
