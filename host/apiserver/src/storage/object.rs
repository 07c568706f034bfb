use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

/// An object about to be written.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The whole object. `apiVersion` and `kind` are not stored: they depend on how it is served.
    pub value: Value,
    /// The values of the resource's selectable fields, in the resource's order.
    pub fields: Box<[Box<str>]>,
}

/// One version of one object, as it is kept: its bytes, and what is asked of them often.
#[derive(Debug)]
pub(crate) struct Stored {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    /// The resourceVersion.
    pub revision: u64,
    pub labels: BTreeMap<Box<str>, Box<str>>,
    pub fields: Box<[Box<str>]>,
    pub owners: Box<[Owner]>,
    pub finalizers: Box<[Box<str>]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The JSON object without `apiVersion` and `kind`.
    body: Bytes,
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub blocks_deletion: bool,
}

impl Stored {
    /// Turns a draft into what is kept at `revision`.
    pub(super) fn new(mut draft: Draft, revision: u64) -> Self {
        set_version(&mut draft.value, Some(revision));
        Self::of(draft, revision)
    }

    /// What a draft would have become: the result of a dry run. It keeps the draft's resourceVersion.
    pub(crate) fn unwritten(mut draft: Draft) -> Self {
        set_version(&mut draft.value, None);
        let revision = draft.value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        Self::of(draft, revision.unwrap_or(0))
    }

    fn of(draft: Draft, revision: u64) -> Self {
        let Draft { value, fields } = draft;
        let body = serde_json::to_vec(&value).expect("a JSON value has string keys");
        let metadata = &value["metadata"];
        let text = |name: &str| boxed(&metadata[name]);
        Self {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            revision,
            labels: entries(&metadata["labels"]),
            fields,
            owners: items(&metadata["ownerReferences"]).map(Owner::read).collect(),
            finalizers: items(&metadata["finalizers"]).map(boxed).collect(),
            deleting: metadata["deletionTimestamp"].is_string(),
            body: Bytes::from(body),
        }
    }

    /// The bytes of the JSON object without `apiVersion` and `kind`: an item of a list of a built-in kind.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// The bytes after the opening brace, to put behind `{"kind":…,"apiVersion":…,`.
    pub(crate) fn tail(&self) -> Bytes {
        self.body.slice(1..)
    }

    /// The object as a tree, without `apiVersion` and `kind`. Parses: not for the path of a watch event.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).expect("what was serialised parses")
    }
}

impl Owner {
    pub(crate) fn read(reference: &Value) -> Self {
        Self {
            api_version: boxed(&reference["apiVersion"]),
            kind: boxed(&reference["kind"]),
            name: boxed(&reference["name"]),
            uid: boxed(&reference["uid"]),
            blocks_deletion: reference["blockOwnerDeletion"] == Value::Bool(true),
        }
    }
}

/// Takes out `apiVersion` and `kind`, and puts in the resourceVersion, if there is one.
fn set_version(value: &mut Value, revision: Option<u64>) {
    let Value::Object(object) = value else { return };
    object.remove("apiVersion");
    object.remove("kind");
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(revision) = revision {
        metadata["resourceVersion"] = Value::String(revision.to_string());
    }
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
