use proptest::prelude::*;
use serde_json::json;

use super::super::decode_protobuf;
use super::*;
use crate::schema::KINDS;

/// Makes objects from schemas, without zero values, which Kubernetes omits from JSON.
struct Generator(u64);

impl Generator {
    /// Returns the next number of a xorshift generator, which is not 0.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn text(&mut self) -> String {
        format!("t{}", self.next() % 1000)
    }

    /// Returns an object with some fields of the schema's message, or `None` if it has none.
    fn object(&mut self, schema: SchemaRef<'_>, depth: u8) -> Option<Value> {
        let message = schema.node().definition.as_deref().unwrap_or_default();
        let mut object = Map::new();
        for name in field_names(message) {
            if depth == 0 || !self.next().is_multiple_of(3) {
                continue;
            }
            let value = schema.field(name).and_then(|field| self.value(field, depth - 1));
            if let Some(value) = value {
                object.insert(name.to_owned(), value);
            }
        }
        (!object.is_empty()).then_some(Value::Object(object))
    }

    fn value(&mut self, schema: SchemaRef<'_>, depth: u8) -> Option<Value> {
        let node = schema.node();
        match node.definition.as_deref().and_then(|definition| definition.rsplit('.').next()) {
            Some("Time") => return Some(json!(format!("2026-01-02T03:04:{:02}Z", self.next() % 60))),
            Some("MicroTime") => {
                return Some(json!(format!("1969-12-31T23:59:{:02}.000123Z", self.next() % 60)));
            }
            Some("Quantity") => return Some(json!(format!("{}m", self.next() % 5000))),
            Some("IntOrString") if self.next().is_multiple_of(2) => return Some(self.text().into()),
            Some("IntOrString") => return Some(json!(80)),
            Some("RawExtension" | "FieldsV1") => return Some(json!({"f:a": {}})),
            _ => {}
        }
        Some(match node.ty {
            Type::Boolean => true.into(),
            Type::Integer if self.next().is_multiple_of(4) => json!(-1),
            Type::Integer => json!(self.next() % 1_000_000 + 1),
            Type::Number => json!(0.5),
            Type::String => {
                let format = node.validations.as_ref().and_then(|validations| validations.format.as_deref());
                let text = self.text();
                if format == Some("byte") { json!(ByteString(text.into_bytes())) } else { text.into() }
            }
            Type::Array => {
                let items = schema.items()?;
                let list: Option<Vec<Value>> =
                    (0..self.next() % 2 + 1).map(|_| self.value(items, depth)).collect();
                Value::Array(list?)
            }
            Type::Object if schema.is_map() && node.definition.is_none() => {
                let entry = self.value(schema.field("*")?, depth)?;
                json!({self.text(): entry})
            }
            Type::Object => self.object(schema, depth)?,
            Type::Any => return None,
        })
    }
}

/// Returns the JSON names of a message's fields, those of embedded messages included.
fn field_names(message: &str) -> Vec<&'static str> {
    let fields = field_table().get(message).into_iter().flatten();
    let names = fields.flat_map(|(_, field)| match field {
        Field::Named { name, .. } => vec![*name],
        Field::Inline(inner) => field_names(inner),
    });
    names.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decoding_reverses_encoding(seed in 1..u64::MAX) {
        let mut generator = Generator(seed);
        for kind in KINDS {
            let schema = Schema::builtin(kind.group, kind.version, kind.kind).expect("a built-in kind");
            let Some(mut object) = generator.object(schema.root(), 7) else { continue };
            let group = if kind.group.is_empty() { String::new() } else { format!("{}/", kind.group) };
            object["apiVersion"] = format!("{group}{}", kind.version).into();
            object["kind"] = kind.kind.into();
            let encoded = encode_protobuf(&object).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(decode_protobuf(&encoded), Ok(object));
        }
    }
}

#[test]
fn config_map_has_the_bytes_of_kubernetes() {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let expected = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0d\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v\x1a\0\x22\0";
    assert_eq!(encode_protobuf(&object), Ok(expected.to_vec()));
}

#[test]
fn items_of_a_list_are_repeated_messages() {
    let item = json!({"metadata": {"name": "a"}});
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": [item, item],
    });
    let mut raw = Vec::new();
    encode_kind("v1", "ConfigMapList", &list, &mut raw).expect("a list");
    assert_eq!(raw, b"\x0a\x03\x12\x017\x12\x05\x0a\x03\x0a\x01a\x12\x05\x0a\x03\x0a\x01a");
}

#[test]
fn list_is_the_same_if_its_items_are_encoded_one_by_one() {
    let items = [json!({"metadata": {"name": "a"}}), json!({"metadata": {"name": "b"}})];
    let head = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}});
    let mut list = head.clone();
    list["items"] = json!(items);
    assert_eq!(encode_protobuf_list(&head, items.into_iter()), encode_protobuf(&list));
    let custom = json!({"apiVersion": "example.com/v1", "kind": "FooList"});
    assert!(encode_protobuf_list(&custom, std::iter::once(json!({}))).is_err());
}

#[test]
fn event_is_a_frame_with_its_length() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "creationTimestamp": null}});
    let frame = encode_protobuf_event(&json!({"type": "ADDED", "object": object})).expect("an event");
    let (length, message) = frame.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().expect("four bytes")) as usize, message.len());
    assert!(message.starts_with(b"\x0a\x05ADDED\x12"), "{message:?}");
    let encoded = encode_protobuf(&object).expect("an object");
    assert!(message.ends_with(&encoded));
}

#[test]
fn errors_and_metadata_are_encoded_and_other_kinds_are_refused() {
    let status = crate::status::Status::no_such_resource().to_value();
    assert!(encode_protobuf(&status).is_ok(), "{status}");
    let metadata = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "a", "labels": {"b": "c"}},
    });
    assert!(encode_protobuf(&metadata).is_ok());
    let custom = encode_protobuf(&json!({"apiVersion": "example.com/v1", "kind": "Foo"}));
    assert!(matches!(custom, Err(ProtobufError::UnknownKind { ref kind, .. }) if kind == "Foo"));
}

#[test]
fn field_without_a_number_is_an_error() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "other": 1});
    let error = encode_protobuf(&object).expect_err("an unknown field");
    assert_eq!(
        error,
        ProtobufError::Unencodable { message: "io.k8s.api.core.v1.ConfigMap".into(), field: "other".into() }
    );
}

#[test]
fn every_field_of_a_message_with_numbers_has_one() {
    for (message, definition) in &crate::schema::definitions().schemas {
        if !field_table().contains_key(message.as_str()) {
            continue;
        }
        let numbered = field_names(message);
        for (name, _) in definition["properties"].as_object().into_iter().flatten() {
            let name = name.as_str();
            assert!(
                TYPE_META.contains(&name) || numbered.contains(&name),
                "{message} has no number for {name}"
            );
        }
    }
}
