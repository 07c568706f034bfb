//! Prepares an object from a client for storage: decoding, unknown fields, defaults, validation, managed fields.

use serde_json::Value;

use crate::meta;
use crate::patch::apply::{Writer, track_update};
use crate::registry::Endpoint;
use crate::request::options::{FieldValidation, WriteOptions};
use crate::status::{Cause, Status};

/// Decodes an object: rejects wrong types, drops or rejects unknown fields, and sets defaults. Returns warnings.
pub(crate) fn decode(
    endpoint: &Endpoint,
    value: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let Some(schema) = &endpoint.schema else { return Ok(Vec::new()) };
    if let Some(problem) = schema.decode_error(value) {
        return Err(Status::bad_request(problem));
    }
    let unknown: Vec<String> =
        schema.prune(value).into_iter().map(|path| format!("unknown field \"{path}\"")).collect();
    if validation == FieldValidation::Strict && !unknown.is_empty() {
        let problem = format!("strict decoding error: {}", unknown.join(", "));
        let (kind, version) = (endpoint.kind(), &endpoint.version);
        return Err(Status::bad_request(if schema.is_built_in() {
            format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {problem}")
        } else {
            problem
        }));
    }
    schema.apply_defaults(value);
    Ok(if validation == FieldValidation::Warn { unknown } else { Vec::new() })
}

/// Decodes an object that admission changed. Its type remains that of the endpoint.
pub(crate) fn decode_mutated(endpoint: &Endpoint, value: &mut Value) -> Result<(), Status> {
    value["apiVersion"] = endpoint.api_version.as_str().into();
    value["kind"] = endpoint.kind().into();
    decode(endpoint, value, FieldValidation::Ignore).map(drop)
}

/// Validates an object by its schema. `extra` are causes that the caller found itself.
pub(crate) fn validate(
    endpoint: &Endpoint,
    new: &Value,
    old: Option<&Value>,
    extra: Vec<Cause>,
) -> Result<(), Status> {
    let mut causes = extra;
    if let Some(schema) = &endpoint.schema {
        for cause in schema.validate(new, old) {
            if !causes.iter().any(|known| is_duplicate(known, &cause)) {
                causes.push(cause);
            }
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(endpoint.resource_ref(), name, causes))
}

/// Whether two causes report the same problem. Messages for a missing required field may differ.
fn is_duplicate(a: &Cause, b: &Cause) -> bool {
    a == b || (a.field == b.field && a.reason == b.reason && a.reason == "FieldValueRequired")
}

/// Records in the managed fields of `new` which fields the writer now owns.
pub(crate) fn track_managed_fields(
    endpoint: &Endpoint,
    old: Option<&Value>,
    new: &mut Value,
    options: &WriteOptions,
    subresource: &str,
    time: &str,
) {
    if let Some(schema) = &endpoint.schema {
        track_update(schema, old, new, &writer(endpoint, options, subresource, time));
    }
}

/// Moves the managed fields of one object to another one.
pub(crate) fn copy_managed_fields(from: &mut Value, to: &mut Value) {
    match from["metadata"]["managedFields"].take() {
        Value::Null => drop(meta::metadata_mut(to).remove("managedFields")),
        managed => drop(meta::metadata_mut(to).insert("managedFields".into(), managed)),
    }
}

/// Returns the field manager and the context of a write, for managed fields.
pub(crate) fn writer<'a>(
    endpoint: &'a Endpoint,
    options: &'a WriteOptions,
    subresource: &'a str,
    time: &'a str,
) -> Writer<'a> {
    Writer {
        manager: &options.manager,
        api_version: &endpoint.api_version,
        subresource,
        has_status: endpoint.has_status,
        time,
    }
}
