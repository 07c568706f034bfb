//! Reads and changes the metadata of an object.

use serde_json::{Map, Value, json};

/// The metadata that a client may leave out of an update, and cannot change.
pub(super) const SERVER_FIELDS: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Returns a text of the metadata, "" for none.
pub(super) fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub(super) fn is_set(object: &Value, field: &str) -> bool {
    object["metadata"][field].is_string()
}

/// Returns the metadata of an object, which is added if it is missing.
pub(super) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"].as_object_mut().expect("it was made an object")
}

pub(super) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// Returns whether nothing delays the removal of an object that is being deleted.
pub(super) fn is_deleted(object: &Value) -> bool {
    let grace_period = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    finalizers(object).is_empty() && grace_period == 0
}
