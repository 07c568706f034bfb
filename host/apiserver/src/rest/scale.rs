//! The scale subresource, the same for all kinds with replicas.

use pilothouse_model::LabelSelector;
use serde_json::{Map, Value, json};

use crate::meta;
use crate::registry::{Endpoint, ScalePaths};
use crate::schema::field;
use crate::status::{ResourceRef, Status};

/// `apiVersion` of the subresource.
pub(crate) const API_VERSION: &str = "autoscaling/v1";
/// `kind` of the subresource.
pub(crate) const KIND: &str = "Scale";

/// Returns the Scale of an object.
pub(crate) fn from_object(endpoint: &Endpoint, paths: &ScalePaths, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut scale_metadata = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(name) {
            scale_metadata.insert(name.into(), value.clone());
        }
    }
    let number = |path: &str| lookup(object, path).and_then(Value::as_i64);
    let mut status = json!({"replicas": number(&paths.status_replicas).unwrap_or(0)});
    let selector = selector(endpoint, paths, object);
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let spec =
        number(&paths.spec_replicas).map_or_else(|| json!({}), |replicas| json!({"replicas": replicas}));
    json!({"kind": KIND, "apiVersion": API_VERSION, "metadata": scale_metadata, "spec": spec, "status": status})
}

/// Returns the object with the replicas, resourceVersion and UID of a Scale.
pub(crate) fn set_replicas(
    endpoint: &Endpoint,
    paths: &ScalePaths,
    object: &Value,
    scale: &Value,
) -> Result<Value, Status> {
    let number = replicas(endpoint, meta::text(object, "name"), scale)?;
    let mut object = object.clone();
    set_path(&mut object, &paths.spec_replicas, number.into());
    let version = meta::text(scale, "resourceVersion").to_owned();
    let uid = meta::text(scale, "uid").to_owned();
    let metadata = meta::metadata_mut(&mut object);
    metadata.insert("resourceVersion".into(), version.into());
    if !uid.is_empty() {
        metadata.insert("uid".into(), uid.into());
    }
    Ok(object)
}

/// Returns the configuration of the object itself for an applied Scale: its metadata and its replicas.
pub(crate) fn applied_object(
    endpoint: &Endpoint,
    paths: &ScalePaths,
    scale: &Value,
) -> Result<Value, Status> {
    let mut metadata = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(value) = scale["metadata"].get(name) {
            metadata.insert(name.into(), value.clone());
        }
    }
    let mut config =
        json!({"apiVersion": endpoint.api_version, "kind": endpoint.kind(), "metadata": metadata});
    if !scale["spec"]["replicas"].is_null() {
        let number = replicas(endpoint, meta::text(scale, "name"), scale)?;
        set_path(&mut config, &paths.spec_replicas, number.into());
    }
    Ok(config)
}

/// Returns the replicas of a Scale: 0 if they are absent.
fn replicas(endpoint: &Endpoint, name: &str, scale: &Value) -> Result<i64, Status> {
    let replicas = &scale["spec"]["replicas"];
    let number = match replicas {
        Value::Null => 0,
        other => other.as_i64().ok_or_else(|| {
            Status::bad_request(format!("Scale {name:?}: spec.replicas: {other} is not a whole number"))
        })?,
    };
    if number < 0 {
        let detail = "must be greater than or equal to 0";
        let cause = field::invalid("spec.replicas", replicas, detail);
        let about = endpoint.resource_ref();
        // For a custom resource, kube-apiserver names the object instead of its Scale.
        let about = match endpoint.resource.custom {
            Some(_) => about,
            None => ResourceRef { group: "autoscaling", kind: KIND, ..about },
        };
        return Err(Status::invalid(about, name, vec![cause]));
    }
    Ok(number)
}

/// Sets the field at a path such as `spec.replicas`.
fn set_path(object: &mut Value, path: &str, value: Value) {
    let mut field = object;
    for part in path.split('.') {
        if !field.is_object() {
            *field = Value::Object(Map::new());
        }
        field = &mut field[part];
    }
    *field = value;
}

fn selector(endpoint: &Endpoint, paths: &ScalePaths, object: &Value) -> String {
    if let Some(path) = &paths.selector {
        return lookup(object, path).and_then(Value::as_str).unwrap_or_default().to_owned();
    }
    if endpoint.resource.custom.is_some() {
        return String::new();
    }
    // ReplicationController's selector is a plain map.
    let selector = &object["spec"]["selector"];
    let plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let selector = if plain { json!({"matchLabels": selector}) } else { selector.clone() };
    LabelSelector::from_json(&selector).map(|selector| selector.to_string()).unwrap_or_default()
}

fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, part| value.get(part))
}
