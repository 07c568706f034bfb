//! CBOR (RFC 8949) in the form that Kubernetes uses, converted from and to JSON values.
//!
//! As in `k8s.io/apimachinery/pkg/runtime/serializer/cbor`, objects begin with the tag for self-described CBOR, and strings are encoded
//! as byte strings. Both kinds of strings are decoded.

use ciborium::Value as Cbor;
use ciborium::value::Integer;
use k8s_openapi::ByteString;
use serde_json::{Map, Number, Value};
use thiserror::Error;

/// The tag for self-described CBOR, as every encoded object begins with it.
const SELF_DESCRIBED: u64 = 55_799;
/// The tag of byte strings that stand for their base64 text.
const BASE64: u64 = 22;
/// The encoding of the tag for self-described CBOR.
const TAG_BYTES: [u8; 3] = [0xd9, 0xd9, 0xf7];
/// The major types of arrays and maps, in the first three bits of a data item.
const ARRAY: u8 = 4 << 5;
const MAP: u8 = 5 << 5;
/// The deepest nesting that is decoded, as in Kubernetes.
const MAX_DEPTH: usize = 64;

/// The reason why bytes cannot be decoded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum CborError {
    /// The bytes are not CBOR, or are nested too deeply.
    #[error("the body is not a CBOR data item with at most 64 levels: {0}")]
    Malformed(String),
    /// There are further bytes after the data item.
    #[error("the CBOR body has {0} bytes after its data item")]
    TrailingData(usize),
    /// The data item has no equivalent in JSON.
    #[error("the CBOR body cannot be represented in JSON: {0}")]
    NotJson(String),
}

/// Encodes a value, with the tag for self-described CBOR.
pub(crate) fn encode(value: &Value) -> Vec<u8> {
    let item = Cbor::Tag(SELF_DESCRIBED, Box::new(to_cbor(value)));
    let mut bytes = Vec::new();
    put_item(&mut bytes, &item);
    bytes
}

/// Encodes an object of `members` and `items`, one item at a time, because all items together may be large.
pub(crate) fn encode_list(
    members: &Map<String, Value>,
    items: impl ExactSizeIterator<Item = Value>,
) -> Vec<u8> {
    let mut bytes = TAG_BYTES.to_vec();
    put_head(&mut bytes, MAP, members.len() + 1);
    for (name, value) in members {
        put_item(&mut bytes, &text_to_cbor(name));
        put_item(&mut bytes, &to_cbor(value));
    }
    put_item(&mut bytes, &text_to_cbor("items"));
    put_head(&mut bytes, ARRAY, items.len());
    for item in items {
        put_item(&mut bytes, &to_cbor(&item));
    }
    bytes
}

fn put_item(bytes: &mut Vec<u8>, item: &Cbor) {
    ciborium::into_writer(item, bytes).expect("writing to memory");
}

/// Appends the head of an array or a map with this number of items.
fn put_head(bytes: &mut Vec<u8>, major: u8, length: usize) {
    match (u8::try_from(length), u64::try_from(length)) {
        (Ok(small), _) if small < 24 => bytes.push(major | small),
        (_, length) => {
            // 27: the number follows in eight bytes.
            bytes.push(major | 27);
            bytes.extend_from_slice(&length.unwrap_or(u64::MAX).to_be_bytes());
        }
    }
}

/// Decodes one data item.
///
/// # Errors
/// See [`CborError`].
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, CborError> {
    let mut rest = bytes;
    let item: Cbor = ciborium::de::from_reader_with_recursion_limit(&mut rest, MAX_DEPTH)
        .map_err(|error| CborError::Malformed(error.to_string()))?;
    if !rest.is_empty() {
        return Err(CborError::TrailingData(rest.len()));
    }
    to_json(item)
}

fn to_cbor(value: &Value) -> Cbor {
    match value {
        Value::Null => Cbor::Null,
        Value::Bool(flag) => Cbor::Bool(*flag),
        Value::Number(number) => number_to_cbor(number),
        Value::String(text) => text_to_cbor(text),
        Value::Array(items) => Cbor::Array(items.iter().map(to_cbor).collect()),
        Value::Object(members) => {
            Cbor::Map(members.iter().map(|(name, value)| (text_to_cbor(name), to_cbor(value))).collect())
        }
    }
}

fn text_to_cbor(text: &str) -> Cbor {
    Cbor::Bytes(text.as_bytes().to_vec())
}

fn number_to_cbor(number: &Number) -> Cbor {
    if let Some(integer) = number.as_i64() {
        Cbor::Integer(Integer::from(integer))
    } else if let Some(integer) = number.as_u64() {
        Cbor::Integer(Integer::from(integer))
    } else {
        number.as_f64().map_or(Cbor::Null, Cbor::Float)
    }
}

fn to_json(item: Cbor) -> Result<Value, CborError> {
    Ok(match item {
        Cbor::Null => Value::Null,
        Cbor::Bool(flag) => Value::Bool(flag),
        Cbor::Integer(integer) => integer_to_json(integer)?,
        Cbor::Float(number) => Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| CborError::NotJson(format!("the number {number}")))?,
        Cbor::Text(text) => Value::String(text),
        Cbor::Bytes(bytes) => Value::String(utf8(bytes)?),
        Cbor::Array(items) => Value::Array(items.into_iter().map(to_json).collect::<Result<_, _>>()?),
        Cbor::Map(entries) => map_to_json(entries)?,
        Cbor::Tag(SELF_DESCRIBED, item) => to_json(*item)?,
        Cbor::Tag(BASE64, item) => match *item {
            Cbor::Bytes(bytes) => serde_json::to_value(ByteString(bytes)).unwrap_or_default(),
            _ => return Err(CborError::NotJson(format!("the tag {BASE64} of anything but bytes"))),
        },
        Cbor::Tag(tag, _) => return Err(CborError::NotJson(format!("the tag {tag}"))),
        _ => return Err(CborError::NotJson("an unknown kind of data item".into())),
    })
}

fn integer_to_json(integer: Integer) -> Result<Value, CborError> {
    let wide = i128::from(integer);
    if let Ok(number) = i64::try_from(wide) {
        return Ok(number.into());
    }
    u64::try_from(wide).map(Value::from).map_err(|_| CborError::NotJson(format!("the number {wide}")))
}

fn utf8(bytes: Vec<u8>) -> Result<String, CborError> {
    String::from_utf8(bytes)
        .map_err(|error| CborError::NotJson(format!("a byte string that is not text: {error}")))
}

fn map_to_json(entries: Vec<(Cbor, Cbor)>) -> Result<Value, CborError> {
    let mut members = Map::new();
    for (key, value) in entries {
        let name = match key {
            Cbor::Text(text) => text,
            Cbor::Bytes(bytes) => utf8(bytes)?,
            _ => return Err(CborError::NotJson("a map key that is not a string".into())),
        };
        if members.contains_key(&name) {
            return Err(CborError::NotJson(format!("the map key {name:?}, which occurs more than once")));
        }
        members.insert(name, to_json(value)?);
    }
    Ok(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "[a-zä]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn objects_begin_with_the_self_described_tag() {
        // A map with one entry, whose key and value are byte strings.
        assert_eq!(encode(&json!({"a": "b"})), b"\xd9\xd9\xf7\xa1\x41a\x41b");
    }

    #[test]
    fn list_is_encoded_like_an_object() {
        let items: Vec<Value> = (0..300).map(|index| json!({"name": index.to_string()})).collect();
        for count in [0, 3, 300] {
            let list = json!({"kind": "List", "metadata": {"a": 1}, "items": items[..count]});
            let mut members = list.as_object().expect("an object").clone();
            members.remove("items");
            assert_eq!(decode(&encode_list(&members, items[..count].iter().cloned())), Ok(list));
        }
    }

    #[test]
    fn text_strings_byte_strings_and_base64_are_decoded() {
        assert_eq!(decode(b"\xa1\x61a\x61b"), Ok(json!({"a": "b"})));
        assert_eq!(decode(b"\xa1\x41a\xd6\x45hello"), Ok(json!({"a": "aGVsbG8="})));
    }

    #[test]
    fn malformed_items_are_refused() {
        assert!(matches!(decode(b""), Err(CborError::Malformed(_))));
        assert!(matches!(decode(&[0x81; 1000]), Err(CborError::Malformed(_))));
        assert_eq!(decode(b"\x01\x02"), Err(CborError::TrailingData(1)));
        assert!(matches!(decode(b"\xa2\x61a\x01\x61a\x02"), Err(CborError::NotJson(_))));
        assert!(matches!(decode(b"\xa1\x01\x02"), Err(CborError::NotJson(_))));
        assert!(matches!(decode(b"\x41\xff"), Err(CborError::NotJson(_))));
    }

    proptest! {
        #[test]
        fn decoding_reverses_encoding(value in values()) {
            prop_assert_eq!(decode(&encode(&value)), Ok(value));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
