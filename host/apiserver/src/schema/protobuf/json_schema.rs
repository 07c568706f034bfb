//! The unions in the schemas of CRDs, whose JSON has no member that says which of the alternatives it is.

use serde_json::{Map, Value};

use super::encode::encode_message;
use super::wire::{WireValue, fields, put_bytes, put_varint};
use super::{ProtobufError, decode_message, json_schema_props};

/// A schema, or whether any value is allowed.
const OR_BOOL: &str = "JSONSchemaPropsOrBool";
/// A schema, or a list of schemas.
const OR_ARRAY: &str = "JSONSchemaPropsOrArray";
/// A schema, or a list of the names of properties.
const OR_STRINGS: &str = "JSONSchemaPropsOrStringArray";

/// Whether this is the name of a union, without its package.
pub(super) fn is_union(name: &str) -> bool {
    [OR_BOOL, OR_ARRAY, OR_STRINGS].contains(&name)
}

/// Decodes a union. `depth` is the number of messages around it.
pub(super) fn decode(name: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let (mut schema, mut list, mut allows) = (None, Vec::new(), false);
    for field in fields(bytes, name) {
        match (name, field?) {
            (OR_BOOL, (1, WireValue::Varint(flag))) => allows = flag != 0,
            (OR_BOOL, (2, WireValue::Bytes(bytes))) | (_, (1, WireValue::Bytes(bytes))) => {
                schema = Some(decode_schema(bytes, depth)?);
            }
            (OR_ARRAY, (2, WireValue::Bytes(bytes))) => list.push(decode_schema(bytes, depth)?),
            (OR_STRINGS, (2, WireValue::Bytes(text))) => list.push(String::from_utf8_lossy(text).into()),
            _ => {}
        }
    }
    Ok(match schema {
        // As in Go, the list has precedence.
        _ if !list.is_empty() => Value::Array(list),
        Some(schema) => schema,
        None if name == OR_BOOL => allows.into(),
        None => Value::Null,
    })
}

fn decode_schema(bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let mut object = Map::new();
    decode_message(json_schema_props(), bytes, &mut object, depth + 1)?;
    Ok(Value::Object(object))
}

/// Encodes a union; `None` if the value is none of its alternatives.
pub(super) fn encode(name: &str, value: &Value) -> Result<Option<Vec<u8>>, ProtobufError> {
    let mut message = Vec::new();
    match (name, value) {
        (OR_BOOL, Value::Bool(allows)) => put_varint(&mut message, 1, (*allows).into()),
        (OR_BOOL, Value::Object(_)) => {
            // Go sets both.
            put_varint(&mut message, 1, 1);
            put_schema(&mut message, 2, value)?;
        }
        (_, Value::Object(_)) => put_schema(&mut message, 1, value)?,
        (OR_ARRAY, Value::Array(schemas)) => {
            schemas.iter().try_for_each(|schema| put_schema(&mut message, 2, schema))?;
        }
        (OR_STRINGS, Value::Array(names)) => {
            for name in names {
                let Some(name) = name.as_str() else { return Ok(None) };
                put_bytes(&mut message, 2, name.as_bytes());
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(message))
}

fn put_schema(out: &mut Vec<u8>, number: u64, schema: &Value) -> Result<(), ProtobufError> {
    let mut message = Vec::new();
    if let Some(schema) = schema.as_object() {
        encode_message(json_schema_props(), schema, &mut message)?;
    }
    put_bytes(out, number, &message);
    Ok(())
}
