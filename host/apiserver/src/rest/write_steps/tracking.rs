//! When the managed fields of a write are recorded: before admission, which sees them and may change them, as in Kubernetes.

use serde_json::Value;

use super::admit;
use crate::admission::{Notes, WriteRequest};
use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::verbs::update::{UpdateTarget, prepare};
use crate::state::State;

/// Records the managed fields of an update before policies and webhooks change it. The client owns what it sent, not what they add.
pub(in crate::rest) fn track_before_admission(
    state: &State,
    write: &WriteRequest<'_>,
    old: &Value,
    new: &mut Value,
    options: &WriteOptions,
) {
    let sent = new.clone();
    track_update(state, write, old, new, Some(sent), options);
}

/// Records the managed fields of an update. `sent` is the new state before the built-in plugins changed it.
pub(in crate::rest) fn track_update(
    state: &State,
    write: &WriteRequest<'_>,
    old: &Value,
    new: &mut Value,
    sent: Option<Value>,
    options: &WriteOptions,
) {
    let (endpoint, now) = (write.endpoint, state.now());
    let Some(mut sent) = sent else {
        return admit::track_managed_fields(endpoint, Some(old), new, options, write.subresource, &now);
    };
    let target = UpdateTarget::from_subresource(Some(write.subresource));
    if keeps_sent(endpoint, target) {
        meta::keep_server_fields(old, &mut sent);
        sent["status"] = old["status"].clone();
    } else {
        // What is invalid in it does not matter: the changed state is valid.
        let _ = prepare(state, endpoint, target, old, &mut sent);
    }
    admit::track_managed_fields(endpoint, Some(old), &mut sent, options, write.subresource, &now);
    admit::copy_managed_fields(&mut sent, new);
}

/// Whether the client owns all that it sent, as in Kubernetes, even if the write does not change it: fields that a resize or new ephemeral containers
/// leave as they are, and those that the type of a Service does not need.
pub(in crate::rest) fn keeps_sent(endpoint: &Endpoint, target: UpdateTarget) -> bool {
    matches!(target, UpdateTarget::Resize | UpdateTarget::EphemeralContainers)
        || (target == UpdateTarget::Object && endpoint.is_core("services"))
}

/// Restores the managed fields that an object had before admission if those after it are invalid, with a warning.
pub(in crate::rest) fn restore_if_invalid(before: &Value, object: &mut Value, notes: &Notes) {
    let after = &object["metadata"]["managedFields"];
    let Some(problem) = problem(after).filter(|_| after != before) else { return };
    notes.warn(&[format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
         admission controller; please fix your requests: {problem}"
    )]);
    let metadata = meta::metadata_mut(object);
    match before {
        Value::Null => drop(metadata.remove("managedFields")),
        before => drop(metadata.insert("managedFields".into(), before.clone())),
    }
}

/// Returns what is wrong with managed fields.
fn problem(list: &Value) -> Option<String> {
    list.as_array().into_iter().flatten().enumerate().find_map(|(index, entry)| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        if !["Apply", "Update"].contains(&text("operation")) {
            return Some("operation must be `Apply` or `Update`".to_owned());
        }
        if text("apiVersion").is_empty() {
            return Some("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => None,
            "" => Some(format!("missing fieldsType in managed fields entry {index}")),
            other => Some(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_managed_fields_have_the_problems_of_kubernetes() {
        let entry = |field: &str, value: &str| {
            let mut entry = json!({"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"});
            entry[field] = value.into();
            json!([entry])
        };
        assert_eq!(problem(&entry("manager", "m")), None);
        for (field, value, expected) in [
            ("operation", "Replace", "operation must be `Apply` or `Update`"),
            ("apiVersion", "", "apiVersion must not be empty"),
            ("fieldsType", "", "missing fieldsType in managed fields entry 0"),
            ("fieldsType", "X", "invalid fieldsType \"X\" in managed fields entry 0"),
        ] {
            assert_eq!(problem(&entry(field, value)).as_deref(), Some(expected));
        }
    }
}
