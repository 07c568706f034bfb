//! Kubernetes' protobuf encoding of built-in kinds, decoded to JSON and encoded from it.
//!
//! kubectl's `create` subcommands and typed Go clients use protobuf. The types of fields come from the JSON schemas, their numbers from `fields.txt`.

mod encode;
mod json_schema;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use pilothouse_model::hash::HashMap;
use serde_json::{Map, Value};
use thiserror::Error;
use wire::{WireValue, fields};

pub use encode::encode_protobuf;
pub(crate) use encode::{encode_protobuf_event, encode_protobuf_list};

use super::node::{SchemaRef, Type};
use super::{Schema, delete_options, json_schema_props, list_meta, object_meta, status};

/// The prefix of every encoded object.
const MAGIC: &[u8] = b"k8s\0";

/// The most messages that an object may nest, with map entries. `JSONSchemaProps` is recursive.
const MAX_DEPTH: usize = 128;

/// The reason why bytes cannot be decoded as an object in Kubernetes' protobuf encoding.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProtobufError {
    /// The magic bytes are missing.
    #[error(
        "the body does not start with the bytes \"k8s\\0\" of Kubernetes' protobuf encoding: send JSON instead"
    )]
    NoMagic,
    /// A length exceeds the body, or a varint is too long.
    #[error("the protobuf body is truncated or malformed within a field of {message}")]
    Malformed {
        /// The message that contains the field.
        message: String,
    },
    /// Messages nest too deep.
    #[error("the protobuf body nests more than {} messages: nest the object less deep", MAX_DEPTH)]
    TooDeep,
    /// The kind is not built in, or its field numbers are not known.
    #[error("{kind} of {api_version} cannot be decoded from protobuf: send JSON instead")]
    UnknownKind {
        /// The `apiVersion` of the object.
        api_version: String,
        /// The `kind` of the object.
        kind: String,
    },
    /// The value of a field has no protobuf encoding.
    #[error("the field {field} of {message} has no protobuf encoding: request JSON instead")]
    Unencodable {
        /// The message that contains the field.
        message: String,
        /// The name of the field.
        field: String,
    },
}

/// Decodes an object, with its `apiVersion` and `kind`. Unknown fields are skipped. Zero values of optional fields that are
/// not pointers in Go are omitted, as in Go's JSON.
///
/// # Errors
/// See [`ProtobufError`]; the server responds with 400.
pub fn decode_protobuf(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let body = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in fields(body, "Unknown") {
        match field? {
            (1, WireValue::Bytes(type_meta)) => {
                for field in fields(type_meta, "TypeMeta") {
                    match field? {
                        (1, WireValue::Bytes(text)) => {
                            api_version = String::from_utf8_lossy(text).into_owned();
                        }
                        (2, WireValue::Bytes(text)) => kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, WireValue::Bytes(object)) => raw = object,
            _ => {}
        }
    }
    let mut object = Map::new();
    object.insert("apiVersion".into(), api_version.as_str().into());
    object.insert("kind".into(), kind.as_str().into());
    if kind == "DeleteOptions" {
        decode_message(delete_options(), raw, &mut object, 0)?;
        return Ok(Value::Object(object));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let schema = Schema::builtin(group, version, &kind).filter(|_| has_protobuf(group, version, &kind));
    let Some(schema) = schema else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    decode_message(schema.root(), raw, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// An entry of `fields.txt`.
#[derive(Debug)]
enum Field {
    /// A field of the JSON object. If it is a pointer in Go, its zero value is not omitted.
    Named { name: &'static str, is_pointer: bool },
    /// An embedded message, whose fields are fields of the outer object in JSON.
    Inline(&'static str),
}

/// The fields of each message, by number.
type FieldTable = HashMap<&'static str, BTreeMap<u64, Field>>;

fn field_table() -> &'static FieldTable {
    static TABLE: OnceLock<FieldTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        let lines = include_str!("fields.txt").lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| {
                let (message, fields) = line.split_once(' ')?;
                Some((message, fields.split(' ').filter_map(parse_field).collect()))
            })
            .collect()
    })
}

/// Returns whether objects of a built-in kind can be encoded.
pub(crate) fn has_protobuf(group: &str, version: &str, kind: &str) -> bool {
    let schema = Schema::builtin(group, version, kind);
    schema.is_some_and(|schema| {
        schema.root().node().definition.as_deref().is_some_and(|name| field_table().contains_key(name))
    })
}

/// Whether a message has the field, and the field is no pointer in Go.
pub(super) fn is_value_field(message: &str, field: &str) -> bool {
    let fields = field_table().get(message).into_iter().flat_map(BTreeMap::values);
    fields.into_iter().any(|known| match known {
        Field::Named { name, is_pointer } => *name == field && !is_pointer,
        Field::Inline(inner) => is_value_field(inner, field),
    })
}

/// Parses `NAME=NUMBER`, `NAME=NUMBER?` or `+MESSAGE=NUMBER`.
fn parse_field(text: &'static str) -> Option<(u64, Field)> {
    let (name, number) = text.split_once('=')?;
    let (number, is_pointer) = number.strip_suffix('?').map_or((number, false), |number| (number, true));
    let field = match name.strip_prefix('+') {
        Some(message) => Field::Inline(message),
        None => Field::Named { name, is_pointer },
    };
    Some((number.parse().ok()?, field))
}

/// Decodes the message of a schema's definition into `object`. `depth` is the number of messages around it.
fn decode_message(
    schema: SchemaRef<'_>,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    let name = schema.node().definition.as_deref().unwrap_or_default();
    decode_message_as(name, schema, bytes, object, depth)
}

/// Decodes the message `name` into `object`, which `schema` describes.
fn decode_message_as(
    name: &str,
    schema: SchemaRef<'_>,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    let known_fields = field_table().get(name);
    for field in fields(bytes, name) {
        let (number, wire) = field?;
        match (known_fields.and_then(|fields| fields.get(&number)), wire) {
            (Some(Field::Inline(inner)), WireValue::Bytes(bytes)) => {
                decode_message_as(inner, schema, bytes, object, depth)?;
            }
            (Some(Field::Named { name, is_pointer }), wire) => {
                if let Some(field_schema) = schema.field(name) {
                    let keeps_zero =
                        *is_pointer || schema.node().required.iter().any(|required| required == name);
                    insert_field(object, (name, keeps_zero), field_schema, wire, depth)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Decodes a field, of which the name is given and whether its zero value is kept, into `object`. An item of a repeated field is appended, an
/// entry of a map inserted.
fn insert_field(
    object: &mut Map<String, Value>,
    (name, keeps_zero): (&str, bool),
    schema: SchemaRef<'_>,
    wire: WireValue<'_>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if let (Type::Array, Some(items)) = (schema.node().ty, schema.items()) {
        let item = decode_value(items, wire, depth)?;
        if let Value::Array(list) = object.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
            list.push(item);
        }
        return Ok(());
    }
    if let (true, WireValue::Bytes(bytes)) = (schema.is_map() && schema.node().definition.is_none(), wire) {
        let (key, entry) = decode_map_entry(schema, bytes, depth)?;
        if let Value::Object(map) = object.entry(name).or_insert_with(|| Value::Object(Map::new())) {
            map.insert(key, entry);
        }
        return Ok(());
    }
    let value = decode_value(schema, wire, depth)?;
    if keeps_zero || !is_zero(&value) {
        object.insert(name.to_owned(), value);
    }
    Ok(())
}

fn decode_map_entry(
    schema: SchemaRef<'_>,
    bytes: &[u8],
    depth: usize,
) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut value) = (String::new(), None);
    let value_schema = schema.field("*");
    for field in fields(bytes, "map entry") {
        match (field?, value_schema) {
            ((1, WireValue::Bytes(text)), _) => key = String::from_utf8_lossy(text).into_owned(),
            ((2, wire), Some(schema)) => value = Some(decode_value(schema, wire, depth + 1)?),
            _ => {}
        }
    }
    let empty = || match value_schema.map(|schema| schema.node().ty) {
        Some(Type::Array) => Value::Array(Vec::new()),
        _ => Value::from(""),
    };
    Ok((key, value.unwrap_or_else(empty)))
}

fn decode_value(schema: SchemaRef<'_>, wire: WireValue<'_>, depth: usize) -> Result<Value, ProtobufError> {
    let node = schema.node();
    if let (Some(definition), WireValue::Bytes(bytes)) = (&node.definition, wire) {
        match definition.rsplit('.').next() {
            Some("Time") => return decode_time(bytes, 0),
            Some("MicroTime") => return decode_time(bytes, 6),
            Some("Quantity") => return decode_quantity(bytes),
            Some("IntOrString") => return decode_int_or_string(bytes),
            Some("RawExtension" | "FieldsV1" | "JSON") => return decode_raw_json(bytes),
            Some(union) if json_schema::is_union(union) => return json_schema::decode(union, bytes, depth),
            _ => {}
        }
    }
    Ok(match (node.ty, wire) {
        (Type::Boolean, WireValue::Varint(number)) => (number != 0).into(),
        (Type::Number, WireValue::Fixed(bits)) => decode_number(f64::from_bits(bits)),
        (_, WireValue::Varint(number)) => number.cast_signed().into(),
        (_, WireValue::Fixed(bits)) => bits.into(),
        (Type::String, WireValue::Bytes(bytes)) => {
            let format = node.validations.as_ref().and_then(|validations| validations.format.as_deref());
            if format == Some("byte") {
                serde_json::to_value(ByteString(bytes.to_vec())).unwrap_or_default()
            } else {
                String::from_utf8_lossy(bytes).into()
            }
        }
        // A list as a map's value is a message with the items in field 1 (`ExtraValue` of SubjectAccessReview).
        (Type::Array, WireValue::Bytes(bytes)) => {
            let items = fields(bytes, "items").filter_map(|field| match field {
                Ok((1, WireValue::Bytes(text))) => Some(Ok(String::from_utf8_lossy(text).into())),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            });
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        (_, WireValue::Bytes(bytes)) => {
            let mut object = Map::new();
            decode_message(schema, bytes, &mut object, depth + 1)?;
            Value::Object(object)
        }
    })
}

/// Returns a number as Go writes it in JSON: a whole number has no fraction.
fn decode_number(number: f64) -> Value {
    // Up to 2^53, each whole number is a `f64`.
    let is_whole = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
    if is_whole { Value::from(number as i64) } else { Value::from(number) }
}

/// Decodes a message of seconds and nanoseconds to RFC 3339 with 0 or 6 fractional digits; null if it is empty, which
/// is Go's zero time.
fn decode_time(bytes: &[u8], digits: u8) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in fields(bytes, "Time") {
        match field? {
            (1, WireValue::Varint(number)) => seconds = number.cast_signed(),
            (2, WireValue::Varint(number)) => nanos = i32::try_from(number).unwrap_or_default(),
            _ => {}
        }
    }
    let Ok(time) = Timestamp::new(seconds, nanos) else { return Ok(Value::Null) };
    let text = if digits == 0 { format!("{time:.0}") } else { format!("{time:.6}") };
    Ok(if seconds == 0 && nanos == 0 { Value::Null } else { text.into() })
}

fn decode_quantity(bytes: &[u8]) -> Result<Value, ProtobufError> {
    for field in fields(bytes, "Quantity") {
        if let (1, WireValue::Bytes(text)) = field? {
            return Ok(String::from_utf8_lossy(text).into());
        }
    }
    Ok("".into())
}

fn decode_int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_string, mut number, mut text) = (false, 0, String::new());
    for field in fields(bytes, "IntOrString") {
        match field? {
            (1, WireValue::Varint(kind)) => is_string = kind == 1,
            (2, WireValue::Varint(value)) => number = value.cast_signed(),
            (3, WireValue::Bytes(value)) => text = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }
    Ok(if is_string { text.into() } else { number.into() })
}

fn decode_raw_json(bytes: &[u8]) -> Result<Value, ProtobufError> {
    for field in fields(bytes, "RawExtension") {
        if let (1, WireValue::Bytes(text)) = field? {
            let malformed = |_| ProtobufError::Malformed { message: "RawExtension".into() };
            return serde_json::from_slice(text).map_err(malformed);
        }
    }
    Ok(Value::Null)
}

/// Returns whether a value is Go's zero value of its type.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Encodes a field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).expect("tests use short fields")];
        out.extend_from_slice(bytes);
        out
    }

    /// Encodes a varint field.
    fn number(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    /// Encodes an object.
    fn object(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")].concat()
    }

    #[test]
    fn config_map_of_kubectl_create_is_decoded() {
        // The name, empty strings, generation 0 and an empty creationTimestamp.
        let metadata = [field(1, b"cm"), field(2, b""), field(3, b""), number(7, 0), field(8, b"")].concat();
        let entry = [field(1, b"a"), field(2, b"b")].concat();
        let raw = [field(1, &metadata), field(2, &entry)].concat();
        assert_eq!(
            decode_protobuf(&object("v1", "ConfigMap", &raw)),
            Ok(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "b"}})
            )
        );
    }

    #[test]
    fn zero_values_of_pointers_are_kept_and_embedded_messages_are_inlined() {
        let volume = [field(1, b"v"), field(2, &field(2, b""))].concat();
        let quantity = field(1, b"100m");
        let limits = [field(1, b"cpu"), field(2, &quantity)].concat();
        let container = [field(1, b"c"), field(8, &field(1, &limits))].concat();
        let pod = field(2, &[field(1, &volume), field(2, &container)].concat());
        let template = field(3, &pod);
        let raw = field(2, &[number(1, 0), template].concat());
        assert_eq!(
            decode_protobuf(&object("apps/v1", "Deployment", &raw)),
            Ok(
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0, "template": {"spec": {
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [{"name": "c", "resources": {"limits": {"cpu": "100m"}}}]
                }}}})
            )
        );
    }

    #[test]
    fn zero_values_of_required_fields_are_kept() {
        let version = [field(1, b"v1"), number(2, 0), number(3, 0), number(7, 0)].concat();
        let raw = field(2, &field(7, &version));
        let decoded = decode_protobuf(&object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &raw))
            .expect("a CustomResourceDefinition");
        assert_eq!(decoded["spec"]["versions"], json!([{"name": "v1", "served": false, "storage": false}]));
    }

    #[test]
    fn int_or_strings_bytes_and_times_have_their_json_form() {
        let by_name = [number(1, 1), number(2, 0), field(3, b"http")].concat();
        let by_number = [number(1, 0), number(2, 80), field(3, b"")].concat();
        let ports = [field(1, &field(4, &by_name)), field(1, &field(4, &by_number))].concat();
        let service = decode_protobuf(&object("v1", "Service", &field(2, &ports))).expect("a Service");
        assert_eq!(service["spec"]["ports"], json!([{"targetPort": "http"}, {"targetPort": 80}]));
        let entry = [field(1, b"p"), field(2, b"hello")].concat();
        let secret = decode_protobuf(&object("v1", "Secret", &field(2, &entry))).expect("a Secret");
        assert_eq!(secret["data"], json!({"p": "aGVsbG8="}));
        let renewed = field(4, &[number(1, 1), vec![2 << 3, 0xc0, 0x84, 0x3d]].concat());
        let lease = decode_protobuf(&object("coordination.k8s.io/v1", "Lease", &field(2, &renewed)))
            .expect("a Lease");
        assert_eq!(lease["spec"]["renewTime"], "1970-01-01T00:00:01.001000Z");
    }

    #[test]
    fn errors_name_the_problem() {
        assert_eq!(decode_protobuf(b"{}"), Err(ProtobufError::NoMagic));
        let unknown = decode_protobuf(&object("example.com/v1", "Foo", b""));
        assert!(matches!(unknown, Err(ProtobufError::UnknownKind { ref kind, .. }) if kind == "Foo"));
        let cut = object("v1", "ConfigMap", &[10, 200]);
        assert!(matches!(decode_protobuf(&cut), Err(ProtobufError::Malformed { .. })));
    }

    #[test]
    fn every_numbered_field_exists_in_the_schema() {
        let definitions = &crate::schema::definitions().schemas;
        for (message, fields) in field_table() {
            let Some(definition) = definitions.get(*message) else { continue };
            for field in fields.values() {
                match field {
                    Field::Named { name, .. } => {
                        assert!(definition["properties"].get(*name).is_some(), "{message} has no {name}");
                    }
                    Field::Inline(inner) => assert!(field_table().contains_key(inner), "{inner} is missing"),
                }
            }
        }
        for kind in ["io.k8s.api.apps.v1.Deployment", "io.k8s.api.core.v1.Pod", "io.k8s.api.batch.v1.Job"] {
            assert!(field_table().contains_key(kind), "{kind}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(raw in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = decode_protobuf(&object("apps/v1", "Deployment", &raw));
            let _ = decode_protobuf(&raw);
        }
    }
}
