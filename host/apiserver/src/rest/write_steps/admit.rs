//! Prepares an object from a client for storage: decoding, unknown fields, defaults, validation, managed fields.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use crate::meta;
use crate::patch::apply::{Versions, Writer, track_update};
use crate::registry::Endpoint;
use crate::request::options::{FieldValidation, WriteOptions};
use crate::request::strict::StrictErrors;
use crate::rest::kinds::{daemon_sets, strategy};
use crate::rest::subresources::scale;
use crate::schema::{DefaultsTooLarge, Schema};
use crate::status::{Cause, Status};

/// The levels that an object may nest. The managed fields add a few, and a stored object that nests deeper than 127 levels cannot
/// be parsed again.
const MAX_DEPTH: usize = 110;

/// Decodes the body of a request that creates or replaces an object: rejects wrong types, and drops or rejects unknown fields. `found` is what strict
/// decoding finds in the body. Returns warnings.
pub(crate) fn decode_sent(
    endpoint: &Endpoint,
    value: &mut Value,
    found: StrictErrors,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    decode_as(endpoint.schema.as_deref(), (endpoint.kind(), &endpoint.version), value, found, validation)
}

/// Decodes the body of a request to replace a Scale as [`decode_sent`] does.
pub(crate) fn decode_scale(
    value: &mut Value,
    found: StrictErrors,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    decode_as(scale::schema().as_deref(), (scale::KIND, "v1"), value, found, validation)
}

fn decode_as(
    schema: Option<&Schema>,
    (kind, version): (&str, &str),
    value: &mut Value,
    mut found: StrictErrors,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    if let Some(schema) = schema {
        let unknown = remove_unknown_fields(schema, value)?;
        if !found.has_unknown {
            found.fields.extend(unknown);
        }
    }
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(found.warnings()),
        FieldValidation::Strict => {
            let errors = found.errors();
            if errors.is_empty() {
                return Ok(errors);
            }
            let problem = format!("strict decoding error: {}", errors.join(", "));
            let about = format!("{kind} in version \"{version}\" cannot be handled as a {kind}");
            Err(Status::bad_request(format!("{about}: {problem}")))
        }
    }
}

/// Decodes an object of a client: rejects wrong types, drops or rejects unknown fields, and sets defaults. Returns warnings.
pub(crate) fn decode(
    endpoint: &Endpoint,
    value: &mut Value,
    options: &WriteOptions,
) -> Result<Vec<String>, Status> {
    decode_with(endpoint, value, options, Schema::apply_defaults)
}

/// Decodes the result of an apply as [`decode`] does an object of a client. Values of `null` stay.
pub(crate) fn decode_applied(
    endpoint: &Endpoint,
    value: &mut Value,
    options: &WriteOptions,
) -> Result<Vec<String>, Status> {
    decode_with(endpoint, value, options, Schema::apply_defaults_keeping_null)
}

/// Decodes an object; `set_defaults` sets the defaults of its schema.
fn decode_with(
    endpoint: &Endpoint,
    value: &mut Value,
    options: &WriteOptions,
    set_defaults: fn(&Schema, &mut Value) -> Result<(), DefaultsTooLarge>,
) -> Result<Vec<String>, Status> {
    let warnings = if options.is_decoded {
        Vec::new()
    } else {
        decode_sent(endpoint, value, StrictErrors::default(), options.validation)?
    };
    if let Some(schema) = &endpoint.schema {
        set_defaults(schema, value).map_err(|DefaultsTooLarge| Status::too_large_for_storage(None))?;
        complete(endpoint, value);
    }
    Ok(warnings)
}

/// Rejects wrong types, and removes unknown fields. Returns what is wrong with them.
fn remove_unknown_fields(schema: &Schema, value: &mut Value) -> Result<Vec<String>, Status> {
    match schema.decode_error(value) {
        Some(problem) => Err(Status::bad_request(problem)),
        None => Ok(schema.prune_strictly(value)),
    }
}

/// Sets the defaults that are no part of a schema.
fn complete(endpoint: &Endpoint, value: &mut Value) {
    if strategy::is_role(endpoint) {
        strategy::complete_rules(value);
    }
    if strategy::is_namespace(endpoint) {
        strategy::label_named(value);
    }
    if daemon_sets::is_daemon_set(endpoint) {
        daemon_sets::complete(value);
    }
}

/// Decodes an object that admission changed. Its type remains that of the endpoint.
///
/// # Errors
/// The object is malformed, which is an error of the policy or webhook and not of the client.
pub(crate) fn decode_mutated(endpoint: &Endpoint, value: &mut Value) -> Result<(), Status> {
    if !value.is_object() {
        return Err(Status::internal("admission replaced the object by something else"));
    }
    value["apiVersion"] = endpoint.api_version.as_str().into();
    value["kind"] = endpoint.kind().into();
    let Some(schema) = &endpoint.schema else { return Ok(()) };
    if let Some(problem) = schema.decode_error(value) {
        return Err(Status::internal(problem));
    }
    schema.prune(value);
    schema.apply_defaults(value).map_err(|DefaultsTooLarge| Status::too_large_for_storage(None))?;
    complete(endpoint, value);
    Ok(())
}

/// Errors if an object nests too deep. The metadata may nest deeper, because its managed fields follow the rest.
fn check_depth(object: &Value) -> Result<(), Status> {
    let members = object.as_object().into_iter().flatten();
    for (name, value) in members.filter(|(name, _)| *name != "metadata") {
        if is_deeper(value, MAX_DEPTH - 1) {
            return Err(Status::bad_request(format!(
                "the member {name:?} makes the object nest deeper than {MAX_DEPTH} levels; store it as text instead"
            )));
        }
    }
    Ok(())
}

/// Whether a value nests deeper than `levels`. Goes no deeper than that.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let is_deeper_below = |value: &Value| is_deeper(value, levels - 1);
    match value {
        Value::Object(object) => levels == 0 || object.values().any(is_deeper_below),
        Value::Array(items) => levels == 0 || items.iter().any(is_deeper_below),
        _ => false,
    }
}

/// Validates an object by its schema, and checks that it can be stored. `extra` are causes that the caller found itself. Returns warnings.
pub(crate) fn validate(
    endpoint: &Endpoint,
    new: &Value,
    old: Option<&Value>,
    extra: Vec<Cause>,
) -> Result<Vec<String>, Status> {
    check_depth(new)?;
    let (mut causes, mut tolerated) = (extra, Vec::new());
    if let Some(schema) = &endpoint.schema {
        let scale = endpoint.scale.as_ref().filter(|_| endpoint.resource.custom.is_some());
        let scale = scale.map(|paths| scale::causes(paths, new)).unwrap_or_default();
        let mut known: HashSet<Cause> = causes.iter().map(identity).collect();
        let extra = known.clone();
        let is_built_in = endpoint.resource.custom.is_none() && !strategy::is_crd(endpoint);
        for cause in schema.validate_with(new, old, scale, &mut tolerated) {
            // kube-apiserver reports that a CRD without versions has no storage version.
            let is_covered = cause.field == "spec.versions" && strategy::is_crd(endpoint);
            // kube-apiserver lists an invalid value of a built-in kind as often as it finds it.
            let may_repeat = is_built_in
                && matches!(&*cause.reason, "FieldValueInvalid" | "FieldValueForbidden")
                && !extra.contains(&identity(&cause));
            if !is_covered && (known.insert(identity(&cause)) || may_repeat) {
                causes.push(cause);
            }
        }
        if endpoint.is_core("pods") && old.is_some() {
            // Kubernetes validates the specification before it compares it with the old one.
            let (metadata, others): (Vec<Cause>, Vec<Cause>) =
                causes.into_iter().partition(|cause| cause.field.starts_with("metadata"));
            let (compared, validated): (Vec<Cause>, Vec<Cause>) =
                others.into_iter().partition(|cause| extra.contains(&identity(cause)));
            causes = metadata.into_iter().chain(validated).chain(compared).collect();
        }
        if strategy::is_crd(endpoint) {
            // Kubernetes validates the metadata of CRDs first.
            causes.sort_by_key(|cause| !cause.field.starts_with("metadata"));
        }
    }
    let warnings = tolerated.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    if causes.is_empty() {
        return Ok(warnings);
    }
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(endpoint.resource_ref(), name, causes).with_warnings(warnings))
}

/// Returns what causes of the same problem have in common. Messages for a missing required field may differ.
fn identity(cause: &Cause) -> Cause {
    let mut identity = cause.clone();
    if cause.reason == "FieldValueRequired" {
        identity.message.clear();
    }
    identity
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
        kept_by_status: strategy::metadata_kept_by_status(endpoint),
        versions: endpoint.versions.as_deref().map_or(Versions::BuiltIn(endpoint.kind()), Versions::Custom),
        time,
    }
}
