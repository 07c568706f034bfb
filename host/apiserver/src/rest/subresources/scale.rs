//! The scale subresource, the same for all kinds with replicas.

use std::sync::Arc;

use pilothouse_model::LabelSelector;
use serde_json::{Map, Value, json};

use crate::go;
use crate::meta;
use crate::registry::{Endpoint, ScalePaths};
use crate::schema::{Schema, field};
use crate::status::{Cause, ResourceRef, Status};

/// `apiVersion` of the subresource.
pub(crate) const API_VERSION: &str = "autoscaling/v1";
/// `kind` of the subresource.
pub(crate) const KIND: &str = "Scale";

/// Returns the schema of a Scale.
pub(crate) fn schema() -> Option<Arc<Schema>> {
    Schema::builtin("autoscaling", "v1", KIND)
}

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
    // As in Kubernetes, the number is absent if it is 0.
    let replicas = number(&paths.spec_replicas).filter(|replicas| *replicas != 0);
    let spec = replicas.map_or_else(|| json!({}), |replicas| json!({"replicas": replicas}));
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
    // The replicas of a custom resource are validated with the object.
    if number < 0 && endpoint.resource.custom.is_none() {
        let detail = "must be greater than or equal to 0";
        let cause = field::invalid("spec.replicas", replicas, detail);
        let about = ResourceRef { group: "autoscaling", kind: KIND, ..endpoint.resource_ref() };
        return Err(Status::invalid(about, name, vec![cause]));
    }
    Ok(number)
}

/// Returns what is wrong with the fields behind the subresource in a custom resource, apart from its schema.
pub(crate) fn causes(paths: &ScalePaths, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for path in [&paths.spec_replicas, &paths.status_replicas] {
        let at = format!(".{path}");
        match typed_field(object, path, "int64", Value::as_i64) {
            Err(problem) => causes.push(field::invalid(&at, &0.into(), &problem)),
            Ok(Some(number)) if number < 0 => {
                causes.push(field::invalid(&at, &number.into(), "should be a non-negative integer"));
            }
            Ok(Some(number)) if number > i64::from(i32::MAX) => {
                let detail = format!("should be less than or equal to {}", i32::MAX);
                causes.push(field::invalid(&at, &number.into(), &detail));
            }
            Ok(_) => {}
        }
    }
    if let Some(path) = &paths.selector
        && let Err(problem) = typed_field(object, path, "string", Value::as_str)
    {
        causes.push(field::invalid(&format!(".{path}"), &"".into(), &problem));
    }
    causes
}

/// Returns the field at a path, `None` if it is absent.
///
/// # Errors
/// The error of Go's functions for unstructured objects, if the field or one around it has another type.
fn typed_field<'a, T>(
    object: &'a Value,
    path: &str,
    expected: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let error = |path: &str, value: &Value, expected: &str| {
        let (shown, found) = (go::printed(value), go::type_name(value));
        Err(format!(".{path} accessor error: {shown} is of the type {found}, expected {expected}"))
    };
    let mut value = object;
    let mut end = 0;
    for part in path.split('.') {
        end += part.len() + usize::from(end > 0);
        match value {
            Value::Null => return Ok(None),
            Value::Object(members) => match members.get(part) {
                Some(child) => value = child,
                None => return Ok(None),
            },
            other => return error(&path[..end], other, "map[string]interface{}"),
        }
    }
    match read(value) {
        Some(found) => Ok(Some(found)),
        None => error(path, value, expected),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_of_a_custom_resource_are_small_whole_numbers() {
        let paths = ScalePaths {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: Some("status.selector".into()),
        };
        let messages = |object: Value| -> Vec<String> {
            causes(&paths, &object)
                .into_iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect()
        };
        assert_eq!(messages(json!({"spec": {"replicas": 3}})), [""; 0]);
        assert_eq!(
            messages(
                json!({"spec": {"replicas": -1}, "status": {"replicas": 3_000_000_000_i64, "selector": 1}})
            ),
            [
                ".spec.replicas: Invalid value: -1: should be a non-negative integer",
                ".status.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647",
                ".status.selector: Invalid value: \"\": .status.selector accessor error: 1 is of the type int64, expected string",
            ]
        );
        assert_eq!(
            messages(json!({"spec": "text", "status": {"replicas": "many"}})),
            [
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: text is of the type string, expected \
                 map[string]interface{}",
                ".status.replicas: Invalid value: 0: .status.replicas accessor error: many is of the type string, expected int64",
            ]
        );
    }
}
