//! Kubernetes' protobuf encoding of built-in kinds, read into JSON.
//!
//! kubectl's `create` subcommands and typed Go clients send it. Answers are JSON, which those clients take as well, so
//! nothing is encoded. Types come from the JSON schemas; `fields.txt` has the field numbers, which those lack.

mod wire;

use std::collections::HashMap;
use std::sync::OnceLock;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Map, Value};
use thiserror::Error;
use wire::{Wire, fields};

use super::node::{SchemaRef, Type};
use super::{Schema, delete_options};

/// What every message starts with.
const MAGIC: &[u8] = b"k8s\0";

/// Bytes that are no object in Kubernetes' protobuf encoding.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProtobufError {
    /// The magic bytes are missing.
    #[error(
        "the body does not start with the bytes \"k8s\\0\" of Kubernetes' protobuf encoding: send JSON instead"
    )]
    NoMagic,
    /// A length points behind the end, or a number is too long.
    #[error("the protobuf body ends or breaks off within a field of {message}")]
    Malformed {
        /// The message that was being read.
        message: String,
    },
    /// The kind has no built-in schema, so its fields have no numbers here.
    #[error("{kind} of {api_version} cannot be read from protobuf: send JSON instead")]
    UnknownKind {
        /// The version in the body.
        api_version: String,
        /// The kind in the body.
        kind: String,
    },
}

/// Reads an object with its `apiVersion` and `kind`. Fields of unknown number are skipped, and Go's zero values count as
/// absent, as they do in JSON.
///
/// # Errors
/// See [`ProtobufError`]; the server answers 400.
pub fn decode_protobuf(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let body = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in fields(body, "Unknown") {
        match field? {
            (1, Wire::Bytes(type_meta)) => {
                for field in fields(type_meta, "TypeMeta") {
                    match field? {
                        (1, Wire::Bytes(text)) => api_version = String::from_utf8_lossy(text).into_owned(),
                        (2, Wire::Bytes(text)) => kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(object)) => raw = object,
            _ => {}
        }
    }
    let mut object = Map::new();
    object.insert("apiVersion".into(), api_version.as_str().into());
    object.insert("kind".into(), kind.as_str().into());
    if kind == "DeleteOptions" {
        message(delete_options(), raw, &mut object)?;
        return Ok(Value::Object(object));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let Some(schema) = Schema::builtin(group, version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    message(schema.root(), raw, &mut object)?;
    Ok(Value::Object(object))
}

/// A field in the table.
#[derive(Debug)]
enum Field {
    /// A field of the JSON object; `pointer` if its zero value is a value.
    Named { name: &'static str, pointer: bool },
    /// A message whose fields stand in the object itself.
    Inline(&'static str),
}

type Table = HashMap<&'static str, HashMap<u64, Field>>;

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let lines = include_str!("fields.txt").lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| {
                let (message, fields) = line.split_once(' ')?;
                Some((message, fields.split(' ').filter_map(numbered).collect()))
            })
            .collect()
    })
}

fn numbered(word: &'static str) -> Option<(u64, Field)> {
    let (name, number) = word.split_once('=')?;
    let (number, pointer) = number.strip_suffix('?').map_or((number, false), |number| (number, true));
    let field = match name.strip_prefix('+') {
        Some(message) => Field::Inline(message),
        None => Field::Named { name, pointer },
    };
    Some((number.parse().ok()?, field))
}

fn message(
    schema: SchemaRef<'_>,
    bytes: &[u8],
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    let name = schema.node().definition.as_deref().unwrap_or_default();
    message_as(name, schema, bytes, object)
}

fn message_as(
    name: &str,
    schema: SchemaRef<'_>,
    bytes: &[u8],
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    let known = table().get(name);
    for field in fields(bytes, name) {
        let (number, wire) = field?;
        match (known.and_then(|known| known.get(&number)), wire) {
            (Some(Field::Inline(inner)), Wire::Bytes(bytes)) => message_as(inner, schema, bytes, object)?,
            (Some(Field::Named { name, pointer }), wire) => {
                if let Some(of_field) = schema.field(name) {
                    insert(object, name, of_field, wire, *pointer)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn insert(
    object: &mut Map<String, Value>,
    name: &str,
    schema: SchemaRef<'_>,
    wire: Wire<'_>,
    pointer: bool,
) -> Result<(), ProtobufError> {
    if let (Type::Array, Some(items)) = (schema.node().ty, schema.items()) {
        let item = value(items, wire)?;
        if let Value::Array(list) = object.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
            list.push(item);
        }
        return Ok(());
    }
    if let (true, Wire::Bytes(bytes)) = (schema.is_map() && schema.node().definition.is_none(), wire) {
        let (key, entry) = map_entry(schema, bytes)?;
        if let Value::Object(map) = object.entry(name).or_insert_with(|| Value::Object(Map::new())) {
            map.insert(key, entry);
        }
        return Ok(());
    }
    let value = value(schema, wire)?;
    if pointer || !is_zero(&value) {
        object.insert(name.to_owned(), value);
    }
    Ok(())
}

fn map_entry(schema: SchemaRef<'_>, bytes: &[u8]) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut found) = (String::new(), None);
    let of_value = schema.field("*");
    for field in fields(bytes, "map entry") {
        match (field?, of_value) {
            ((1, Wire::Bytes(text)), _) => key = String::from_utf8_lossy(text).into_owned(),
            ((2, wire), Some(schema)) => found = Some(value(schema, wire)?),
            _ => {}
        }
    }
    let empty = || match of_value.map(|schema| schema.node().ty) {
        Some(Type::Array) => Value::Array(Vec::new()),
        _ => Value::from(""),
    };
    Ok((key, found.unwrap_or_else(empty)))
}

fn value(schema: SchemaRef<'_>, wire: Wire<'_>) -> Result<Value, ProtobufError> {
    let node = schema.node();
    if let (Some(definition), Wire::Bytes(bytes)) = (&node.definition, wire) {
        match definition.rsplit('.').next() {
            Some("Time") => return time(bytes, 0),
            Some("MicroTime") => return time(bytes, 6),
            Some("Quantity") => return text_field(bytes, 1),
            Some("IntOrString") => return int_or_string(bytes),
            Some("RawExtension" | "FieldsV1") => return raw_json(bytes),
            _ => {}
        }
    }
    Ok(match (node.ty, wire) {
        (Type::Boolean, Wire::Number(number)) => (number != 0).into(),
        (Type::Number, Wire::Fixed(bits)) => f64::from_bits(bits).into(),
        (_, Wire::Number(number)) => number.cast_signed().into(),
        (_, Wire::Fixed(bits)) => bits.into(),
        (Type::String, Wire::Bytes(bytes)) => {
            let format = node.checks.as_ref().and_then(|checks| checks.format.as_deref());
            if format == Some("byte") {
                serde_json::to_value(ByteString(bytes.to_vec())).unwrap_or_default()
            } else {
                String::from_utf8_lossy(bytes).into()
            }
        }
        // A list within a map is a message with the items in field 1 (authorization's extra).
        (Type::Array, Wire::Bytes(bytes)) => {
            let items = fields(bytes, "items").filter_map(|field| match field {
                Ok((1, Wire::Bytes(text))) => Some(Ok(String::from_utf8_lossy(text).into())),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            });
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        (_, Wire::Bytes(bytes)) => {
            let mut object = Map::new();
            message(schema, bytes, &mut object)?;
            Value::Object(object)
        }
    })
}

/// A message of seconds and nanoseconds; null if it is empty, as Go writes the zero time.
fn time(bytes: &[u8], digits: u8) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in fields(bytes, "Time") {
        match field? {
            (1, Wire::Number(number)) => seconds = number.cast_signed(),
            (2, Wire::Number(number)) => nanos = i32::try_from(number).unwrap_or_default(),
            _ => {}
        }
    }
    let Ok(time) = Timestamp::new(seconds, nanos) else { return Ok(Value::Null) };
    let shown = if digits == 0 { format!("{time:.0}") } else { format!("{time:.6}") };
    Ok(if seconds == 0 && nanos == 0 { Value::Null } else { shown.into() })
}

fn text_field(bytes: &[u8], wanted: u64) -> Result<Value, ProtobufError> {
    for field in fields(bytes, "text") {
        if let (number, Wire::Bytes(text)) = field?
            && number == wanted
        {
            return Ok(String::from_utf8_lossy(text).into());
        }
    }
    Ok("".into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in fields(bytes, "IntOrString") {
        match field? {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(value)) => text = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

fn raw_json(bytes: &[u8]) -> Result<Value, ProtobufError> {
    for field in fields(bytes, "RawExtension") {
        if let (1, Wire::Bytes(text)) = field? {
            let broken = |_| ProtobufError::Malformed { message: "RawExtension".into() };
            return serde_json::from_slice(text).map_err(broken);
        }
    }
    Ok(Value::Null)
}

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

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).expect("tests use short fields")];
        out.extend_from_slice(bytes);
        out
    }

    fn number(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    fn object(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")].concat()
    }

    #[test]
    fn a_config_map_as_kubectl_sends_it() {
        // name, empty generateName to resourceVersion, generation 0, an empty creationTimestamp.
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
    fn pointers_keep_their_zero_and_inline_messages_their_place() {
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
    fn ports_secrets_and_times_have_their_json_form() {
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
    fn what_cannot_be_read_says_why() {
        assert_eq!(decode_protobuf(b"{}"), Err(ProtobufError::NoMagic));
        let unknown = decode_protobuf(&object("example.com/v1", "Foo", b""));
        assert!(matches!(unknown, Err(ProtobufError::UnknownKind { ref kind, .. }) if kind == "Foo"));
        let cut = object("v1", "ConfigMap", &[10, 200]);
        assert!(matches!(decode_protobuf(&cut), Err(ProtobufError::Malformed { .. })));
    }

    #[test]
    fn every_number_belongs_to_a_field_of_the_schema() {
        let definitions = &crate::schema::definitions().schemas;
        for (message, fields) in table() {
            let Some(definition) = definitions.get(*message) else { continue };
            for field in fields.values() {
                match field {
                    Field::Named { name, .. } => {
                        assert!(definition["properties"].get(*name).is_some(), "{message} has no {name}");
                    }
                    Field::Inline(inner) => assert!(table().contains_key(inner), "{inner} is missing"),
                }
            }
        }
        for kind in ["io.k8s.api.apps.v1.Deployment", "io.k8s.api.core.v1.Pod", "io.k8s.api.batch.v1.Job"] {
            assert!(table().contains_key(kind), "{kind}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = decode_protobuf(&object("apps/v1", "Deployment", &raw));
            let _ = decode_protobuf(&raw);
        }
    }
}
