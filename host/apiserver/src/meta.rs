//! Reads and writes an object's `metadata`, including the fields that only the server sets.

use serde_json::{Map, Value};

/// Returns `metadata`, which is replaced by an empty object if it is absent or not an object.
pub(crate) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let metadata = &mut value["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was made an object")
}

/// Returns the name that the refusal of an object by admission shows: its name, or the prefix of a name that is still to be generated.
pub(crate) fn shown_name(object: &Value) -> &str {
    let names = [text(object, "name"), text(object, "generateName")];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
}

/// Returns a text field of `metadata`, "" if it is absent.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value["metadata"][field].as_str().unwrap_or_default()
}

/// Returns `metadata.generation`, 0 if it is absent.
pub(crate) fn generation(value: &Value) -> i64 {
    value["metadata"]["generation"].as_i64().unwrap_or(0)
}

/// Returns the finalizers.
pub(crate) fn finalizers(value: &Value) -> Vec<String> {
    let list = value["metadata"]["finalizers"].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Sets the finalizers, or removes the field if there are none.
pub(crate) fn set_finalizers(value: &mut Value, finalizers: Vec<String>) {
    let metadata = metadata_mut(value);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

/// Copies from `old` the fields that a client may omit in an update or cannot change.
pub(crate) fn keep_server_fields(old: &Value, new: &mut Value) {
    let old = &old["metadata"];
    let metadata = metadata_mut(new);
    for field in ["uid", "creationTimestamp", "generation", "namespace", "resourceVersion", "generateName"] {
        match old.get(field) {
            Some(value) => drop(metadata.insert(field.into(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        match old.get(field) {
            Some(value) => drop(metadata.insert(field.into(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
    metadata.remove("selfLink");
}
