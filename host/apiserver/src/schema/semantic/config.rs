//! ConfigMaps and Secrets.

use k8s_openapi::ByteString;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{entries, has, items, push_invalid, text, validate_non_negative};
use crate::schema::{field, names};
use crate::status::Causes;

const MAX_DATA_BYTES: u64 = 1024 * 1024;

pub(super) fn validate_config_map(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let mut size = 0;
    for map in ["data", "binaryData"] {
        for (key, value) in entries(new.get(map)) {
            let at = field::key(map, key);
            push_invalid(causes, &at, key, names::data_key_errors(key));
            if map == "data" && new.get("binaryData").is_some_and(|other| other.get(key).is_some()) {
                causes.push(field::invalid(
                    &at,
                    &Value::from(key.as_str()),
                    "duplicate of key present in binaryData",
                ));
            }
            let text = value.as_str().unwrap_or_default();
            size += if map == "data" { text.len() as u64 } else { decoded_length(text) };
        }
    }
    if size > MAX_DATA_BYTES {
        // As in Kubernetes, the path is an empty one.
        causes.push(field::too_long("[]", MAX_DATA_BYTES));
    }
    validate_immutable(new, old, &["data", "binaryData"], causes);
}

/// Returns the number of bytes that a text in base64 stands for.
fn decoded_length(text: &str) -> u64 {
    let padding = text.len() - text.trim_end_matches('=').len();
    (text.len() / 4 * 3).saturating_sub(padding) as u64
}

pub(super) fn validate_secret(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let mut size = 0;
    for (key, value) in entries(new.get("data")) {
        push_invalid(causes, &field::key("data", key), key, names::data_key_errors(key));
        size += decoded_length(value.as_str().unwrap_or_default());
    }
    if size > MAX_DATA_BYTES {
        causes.push(field::too_long("data", MAX_DATA_BYTES));
    }
    let required_keys: &[&str] = match text(new, "type") {
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            let annotation = new.pointer("/metadata/annotations").map_or("", |all| text(all, name));
            if annotation.is_empty() {
                causes.push(field::required(&field::key("metadata.annotations", name), ""));
            }
            &[]
        }
        "kubernetes.io/basic-auth" => {
            let keys = ["username", "password"];
            let is_missing = |key: &&str| !has(new.get("data").unwrap_or(&Value::Null), key);
            if keys.iter().all(is_missing) {
                causes.extend(keys.map(|key| field::required(&field::key("data", key), "")));
            }
            &[]
        }
        _ => &[],
    };
    for key in required_keys {
        if new.get("data").and_then(|data| data.get(*key)).is_none() {
            causes.push(field::required(&field::key("data", key), ""));
        } else if key.starts_with(".docker")
            && let Some(problem) = json_problem(&new["data"][*key])
        {
            let path = field::key("data", key);
            causes.push(field::invalid_shown(&path, "\"<secret contents redacted>\"", &problem));
        }
    }
    validate_immutable(new, old, &["data"], causes);
    if let Some(old) = old
        && old.get("type") != new.get("type")
    {
        causes.push(field::invalid("type", &new["type"], "field is immutable"));
    }
}

/// Checks that an immutable ConfigMap or Secret stays so and that `fields` are unchanged.
fn validate_immutable(new: &Value, old: Option<&Value>, fields: &[&str], causes: &mut Causes) {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return };
    let detail = "field is immutable when `immutable` is set";
    if new.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(field::forbidden("immutable", detail));
    }
    for name in fields.iter().filter(|name| new.get(**name) != old.get(**name)) {
        causes.push(field::forbidden(name, detail));
    }
}

/// Returns the error of Go's decoder if a value of a Secret's data is no JSON.
fn json_problem(value: &Value) -> Option<String> {
    let ByteString(bytes) = serde_json::from_value(value.clone()).ok()?;
    let error = serde_json::from_slice::<Box<RawValue>>(&bytes).err()?;
    let start = String::from_utf8_lossy(&bytes);
    let first = start.trim_start().chars().next();
    Some(match first {
        Some(c) if error.is_syntax() && !"{[\"-0123456789tfn".contains(c) => {
            format!("invalid character {c:?} looking for beginning of value")
        }
        _ => "unexpected end of JSON input".to_owned(),
    })
}

/// Checks the finalizers of a Namespace, which are known or have a domain.
pub(super) fn validate_finalizers(spec: &Value, is_new: bool, causes: &mut Causes) {
    const PATH: &str = "spec.finalizers";
    for (index, finalizer) in items(&spec["finalizers"]).iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        // As in Kubernetes, the causes about a new Namespace do not say which one it is.
        let path = if is_new { PATH.to_owned() } else { field::index(PATH, index) };
        let errors = names::qualified_name_errors(name);
        let is_unknown = errors.is_empty() && !name.contains('/') && name != "kubernetes";
        push_invalid(causes, &path, name, errors);
        if is_unknown {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(field::invalid(&path, finalizer, detail));
        }
    }
}

/// Checks the number and the data of a ControllerRevision.
pub(super) fn validate_revision(revision: &Value, causes: &mut Causes) {
    validate_non_negative(revision, "revision", "", causes);
    if revision["data"].is_null() {
        causes.push(field::required("data", "data is mandatory"));
    }
}
