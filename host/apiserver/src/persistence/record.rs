//! The format of an object in the database.
//!
//! The key is `GROUP/PLURAL/NAMESPACE/NAME`; none of the four contains a slash. The value is a JSON document with the object and what
//! cannot be derived from it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::storage::{ObjectDraft, StoredObject, TableName};

/// The largest value that is read, in bytes: several times the largest object that a request can create.
const MAX_SIZE: usize = 64 * 1024 * 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredRecord<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'a str>,
    schema: u64,
    fields: &'a [Box<str>],
    object: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LoadedRecord<'a> {
    api_version: Option<String>,
    schema: u64,
    fields: Box<[Box<str>]>,
    /// Parsed by itself: the parser bounds the nesting, and an object may nest as deep here as in a table.
    #[serde(borrow)]
    object: &'a RawValue,
}

/// An object that was read.
#[derive(Debug)]
pub(crate) struct LoadedObject {
    pub table: TableName,
    pub object: ObjectDraft,
    /// The resourceVersion.
    pub revision: u64,
}

/// Returns the start of the keys of a table's objects.
pub(super) fn key_prefix((group, plural): &TableName) -> String {
    format!("{group}/{plural}/")
}

/// Returns the key of an object.
pub(super) fn key(table: &TableName, namespace: &str, name: &str) -> String {
    format!("{}{namespace}/{name}", key_prefix(table))
}

/// Returns the value of an object.
pub(super) fn encode(object: &StoredObject) -> Result<Vec<u8>, serde_json::Error> {
    let record = StoredRecord {
        api_version: object.api_version.as_deref(),
        schema: object.schema,
        fields: &object.fields,
        object: serde_json::from_slice(object.body())?,
    };
    serde_json::to_vec(&record)
}

/// Reads an object and checks that it belongs to its key.
///
/// # Errors
/// What is wrong, without the key.
pub(super) fn decode(key: &str, value: &[u8]) -> Result<LoadedObject, String> {
    let parts: Vec<&str> = key.splitn(4, '/').collect();
    let [group, plural, namespace, name] = parts[..] else {
        return Err("the key is not GROUP/PLURAL/NAMESPACE/NAME".into());
    };
    if value.len() > MAX_SIZE {
        return Err(format!("{} bytes are more than an object can have", value.len()));
    }
    let record: LoadedRecord<'_> = serde_json::from_slice(value).map_err(|error| error.to_string())?;
    let mut object: Value = serde_json::from_str(record.object.get()).map_err(|error| error.to_string())?;
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    if (text("namespace"), text("name")) != (namespace, name) {
        return Err(format!("it contains the object {}/{}", text("namespace"), text("name")));
    }
    // ComponentStatuses have no UID.
    if name.is_empty() {
        return Err("metadata.name is missing".into());
    }
    let revision = text("resourceVersion").parse::<u64>().ok().filter(|revision| *revision > 0);
    let revision = revision.ok_or("metadata.resourceVersion is not a positive number")?;
    if let Some(api_version) = record.api_version {
        object["apiVersion"] = api_version.into();
    }
    Ok(LoadedObject {
        table: (group.to_owned(), plural.to_owned()),
        object: ObjectDraft { value: object, fields: record.fields, schema: record.schema },
        revision,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(api_version: Option<&str>) -> StoredObject {
        let mut value = json!({
            "metadata": {"namespace": "n", "name": "a", "uid": "u", "labels": {"x": "y"}}, "spec": {"text": "ü\n"},
        });
        if let Some(api_version) = api_version {
            value["apiVersion"] = api_version.into();
        }
        StoredObject::new(ObjectDraft { value, fields: Box::new(["f".into()]), schema: 7 }, 42)
    }

    #[test]
    fn object_survives_the_round_trip() {
        for api_version in [None, Some("example.org/v1")] {
            let before = stored(api_version);
            let value = encode(&before).expect("JSON");
            let read = decode("g/plural/n/a", &value).expect("an object");
            assert_eq!((read.table, read.revision), (("g".into(), "plural".into()), 42));
            let after = StoredObject::new(read.object, read.revision);
            assert_eq!(after.body(), before.body());
            assert_eq!((&after.api_version, after.schema), (&before.api_version, before.schema));
            assert_eq!((&after.fields, &after.labels), (&before.fields, &before.labels));
            assert_eq!((&after.uid, after.revision), (&before.uid, before.revision));
        }
    }

    #[test]
    fn deepest_object_that_the_parser_accepts_survives_the_round_trip() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let text = |levels: usize| {
            let metadata = r#"{"name": "a", "namespace": "n", "uid": "u"}"#;
            format!(r#"{{"metadata": {metadata}, "spec": {}}}"#, nested(levels))
        };
        let deepest = (1..200).rev().find_map(|levels| serde_json::from_str::<Value>(&text(levels)).ok());
        let value = deepest.expect("an object");
        let before = StoredObject::new(ObjectDraft { value, fields: Box::default(), schema: 0 }, 42);
        let read = decode("g/plural/n/a", &encode(&before).expect("JSON")).expect("an object");
        assert_eq!(StoredObject::new(read.object, read.revision).body(), before.body());
    }

    #[test]
    fn invalid_records_are_refused() {
        let value = encode(&stored(None)).expect("JSON");
        let text = String::from_utf8(value.clone()).expect("text");
        let problem = |key: &str, value: &str| decode(key, value.as_bytes()).expect_err("invalid");
        assert!(problem("g/plural/a", &text).contains("the key is not"));
        assert!(problem("g/plural/n/b", &text).contains("contains the object n/a"));
        assert!(problem("g/plural/n/a", &text[..20]).contains("EOF"));
        assert!(problem("g/plural/n/a", &text.replace("\"42\"", "\"-1\"")).contains("resourceVersion"));
        assert!(problem("g/plural/n/a", &text.replace("\"schema\"", "\"scheme\"")).contains("unknown field"));
        let nested = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let deep = format!("{{\"schema\":0,\"fields\":[],\"object\":{nested}}}");
        assert!(problem("g/plural/n/a", &deep).contains("recursion limit"));
    }
}
