//! Stored objects.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

/// An object to be written.
#[derive(Clone, Debug)]
pub(crate) struct ObjectDraft {
    /// The whole object. `kind` is not stored, and `apiVersion` beside the object, because the endpoint that serves it sets both.
    pub value: Value,
    /// The values of the resource's selectable fields, in the resource's order.
    pub fields: Box<[Box<str>]>,
    /// Identifies the schema that a custom resource has the form of; 0 for none.
    pub schema: u64,
}

/// One version of an object: its JSON, and the fields that are read often.
#[derive(Debug)]
pub(crate) struct StoredObject {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    /// The resourceVersion.
    pub revision: u64,
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The values of the resource's selectable fields, in the resource's order.
    pub fields: Box<[Box<str>]>,
    pub owners: Box<[Owner]>,
    pub finalizers: Box<[Box<str>]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The `apiVersion` of a custom resource, which may differ from the one that is served.
    pub api_version: Option<Box<str>>,
    /// Identifies the schema that a custom resource has the form of; 0 for none.
    pub schema: u64,
    /// The JSON object without `apiVersion` and `kind`.
    body: Bytes,
    /// The value of the body, if a change log reads it.
    parsed: Option<Box<Value>>,
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub blocks_deletion: bool,
    /// Whether the owner is the one that controls the object.
    pub controller: bool,
}

impl StoredObject {
    /// Creates the stored version of a draft at `revision`.
    pub(crate) fn new(mut draft: ObjectDraft, revision: u64) -> Self {
        let api_version = set_version(&mut draft.value, Some(revision));
        Self { api_version, ..Self::from_draft(draft, revision).0 }
    }

    /// Creates the stored version as [`Self::new`] does, and keeps its value, so that [`Self::value`] need not parse it. Takes more memory.
    pub(crate) fn with_value(mut draft: ObjectDraft, revision: u64) -> Self {
        let api_version = set_version(&mut draft.value, Some(revision));
        let (object, value) = Self::from_draft(draft, revision);
        Self { api_version, parsed: Some(Box::new(value)), ..object }
    }

    /// Returns the object that a dry run would have stored, with the draft's resourceVersion.
    pub(crate) fn unwritten(mut draft: ObjectDraft) -> Self {
        let api_version = set_version(&mut draft.value, None);
        let revision = draft.value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        Self { api_version, ..Self::from_draft(draft, revision.unwrap_or(0)).0 }
    }

    /// Returns the object without its `apiVersion`, and its value.
    fn from_draft(draft: ObjectDraft, revision: u64) -> (Self, Value) {
        let ObjectDraft { value, fields, schema } = draft;
        let body = serde_json::to_vec(&value).expect("a JSON value has string keys");
        let metadata = &value["metadata"];
        let text = |name: &str| boxed(&metadata[name]);
        let object = Self {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            revision,
            labels: entries(&metadata["labels"]),
            fields,
            owners: items(&metadata["ownerReferences"]).map(Owner::parse).collect(),
            finalizers: items(&metadata["finalizers"]).map(boxed).collect(),
            deleting: metadata["deletionTimestamp"].is_string(),
            api_version: None,
            schema,
            body: Bytes::from(body),
            parsed: None,
        };
        (object, value)
    }

    /// Returns the JSON without `apiVersion` and `kind`, which is the form of an item in a list of a built-in kind.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the JSON after the opening brace, to append to `{"kind":…,"apiVersion":…,`.
    pub(crate) fn tail(&self) -> Bytes {
        self.body.slice(1..)
    }

    /// Returns the value of the object, without `kind`, and with `apiVersion` only if it is a custom resource. Too slow to call for each watch
    /// event.
    pub(crate) fn value(&self) -> Value {
        let mut value: Value = match &self.parsed {
            Some(value) => (**value).clone(),
            None => serde_json::from_slice(&self.body).expect("serialized JSON parses"),
        };
        if let Some(version) = &self.api_version {
            value["apiVersion"] = Value::from(&**version);
        }
        value
    }
}

impl Owner {
    pub(crate) fn parse(reference: &Value) -> Self {
        Self {
            api_version: boxed(&reference["apiVersion"]),
            kind: boxed(&reference["kind"]),
            name: boxed(&reference["name"]),
            uid: boxed(&reference["uid"]),
            blocks_deletion: reference["blockOwnerDeletion"] == Value::Bool(true),
            controller: reference["controller"] == Value::Bool(true),
        }
    }
}

/// Removes `apiVersion`, which it returns, and `kind`, and sets the resourceVersion if there is one.
fn set_version(value: &mut Value, revision: Option<u64>) -> Option<Box<str>> {
    let Value::Object(object) = value else { return None };
    let api_version = object.remove("apiVersion");
    object.remove("kind");
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(revision) = revision {
        metadata["resourceVersion"] = Value::String(revision.to_string());
    }
    api_version.as_ref().and_then(Value::as_str).map(Box::from)
}

fn boxed(value: &Value) -> Box<str> {
    value.as_str().unwrap_or_default().into()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn entries(value: &Value) -> BTreeMap<Box<str>, Box<str>> {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.as_str().into(), boxed(value))).collect()
}
