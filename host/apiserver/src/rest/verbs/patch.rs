//! Patches objects: JSON patch, merge patch, strategic merge patch and server-side apply.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::create;
use super::update::{ProposedUpdate, UpdateTarget, update_admitted};
use crate::admission::Admission;
use crate::go;
use crate::meta;
use crate::patch::apply::{ApplyError, apply, check_config, update_last_applied};
use crate::patch::{PatchError, json_patch, merge_patch, strategic_merge_patch};
use crate::registry::Endpoint;
use crate::request::body;
use crate::request::options::{FieldValidation, WriteOptions, invalid_options};
use crate::request::strict::{StrictErrors, Target, yaml_error};
use crate::request::{ObjectPath, Request};
use crate::rest::subresources::scale;
use crate::rest::write_steps::admit;
use crate::rest::{WriteResult, with_warnings};
use crate::schema::{Schema, field};
use crate::state::State;
use crate::status::Status;

/// The media types of patches of custom resources, which have no strategic merge patch.
const ACCEPTED_FOR_CUSTOM: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// A patch, by its media type.
enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

impl Patch {
    /// Parses the body of a request. Returns what strict decoding finds in it, too.
    fn parse(request: &Request, endpoint: &Endpoint) -> Result<(Self, StrictErrors), Status> {
        match body::content_type(request) {
            "application/json-patch+json" => {
                let (patch, mut found) = patch_text(&request.body, Target::PatchOperations)?;
                found.fields.iter_mut().for_each(|text| text.insert_str(0, "json patch "));
                Ok((Self::Json(patch), found))
            }
            "application/merge-patch+json" => {
                let (patch, found) = patch_text(&request.body, Target::Untyped)?;
                Ok((Self::Merge(object(patch)?), found))
            }
            "application/strategic-merge-patch+json" if endpoint.resource.custom.is_none() => {
                let parsed = body::parse_json_strictly(&request.body, Target::Untyped);
                let (patch, found) = parsed.map_err(Status::bad_request)?;
                Ok((Self::Strategic(object(patch)?), found))
            }
            "application/apply-patch+yaml" => {
                body::yaml_strictly(&request.body).map(|(config, found)| (Self::Apply(config), found))
            }
            "application/apply-patch+cbor" => {
                Ok((Self::Apply(body::cbor(&request.body)?), StrictErrors::default()))
            }
            _ if endpoint.resource.custom.is_some() => {
                Err(Status::unsupported_media_type(ACCEPTED_FOR_CUSTOM))
            }
            _ => Err(Status::unsupported_patch()),
        }
    }

    /// Returns the patched object.
    fn apply_to(&self, schema: Option<&Schema>, target: &Value) -> Result<Value, Status> {
        let patched = match (self, schema) {
            (Self::Json(patch), _) => json_patch(target, patch),
            (Self::Strategic(patch), Some(schema)) => strategic_merge_patch(schema, target, patch),
            (Self::Merge(patch) | Self::Strategic(patch) | Self::Apply(patch), _) => {
                Ok(merge_patch(target, patch))
            }
        };
        patched.map_err(|error| match error {
            PatchError::Malformed(problem) => Status::bad_request(problem),
            PatchError::TooLarge(problem) => Status::request_entity_too_large(&problem),
            PatchError::Unclassified(problem) => Status::unclassified(problem),
            // kube-apiserver does not say which operation failed, either.
            PatchError::Unprocessable(problem) | PatchError::TestFailed(problem) => {
                tracing::debug!(problem, "a patch failed");
                Status::unprocessable("the server rejected our request due to an error in our request")
            }
        })
    }

    /// Decodes the result of the patch: removes unknown fields, or with strict validation rejects them. `found` is what strict decoding finds in the
    /// patch. Returns warnings.
    fn decode_result(
        &self,
        (endpoint, schema): (&Endpoint, Option<&Schema>),
        patched: &mut Value,
        found: &[String],
        validation: FieldValidation,
    ) -> Result<Vec<String>, Status> {
        let Some(schema) = schema else { return Ok(Vec::new()) };
        let problem = match self {
            Self::Strategic(_) => schema.conversion_error(patched),
            _ => decoding_error(endpoint, schema, patched),
        };
        if let Some(problem) = problem {
            return Err(Status::undecodable_patch(&self.shown(patched, schema), &problem));
        }
        // The answer to a refused patch shows the unknown fields.
        let whole = (validation == FieldValidation::Strict).then(|| patched.clone());
        let mut unknown = schema.prune_strictly(patched);
        if matches!(self, Self::Strategic(_)) {
            unknown.sort();
        }
        let texts = [found, &unknown].concat();
        match (validation, whole) {
            (FieldValidation::Ignore, _) => Ok(Vec::new()),
            (FieldValidation::Strict, Some(whole)) if !texts.is_empty() => {
                let problem = format!("strict decoding error: {}", texts.join(", "));
                Err(Status::undecodable_patch(&self.shown(&whole, schema), &problem))
            }
            _ => Ok(texts),
        }
    }

    /// Returns what the answer to a patch with an undecodable result shows: the result, or a strategic merge patch itself.
    fn shown(&self, patched: &Value, schema: &Schema) -> String {
        match self {
            Self::Strategic(patch) => go::printed(patch),
            _ if schema.is_built_in() => go::patched_json(patched),
            _ => patched.to_string(),
        }
    }

    /// Whether the patch contains a resourceVersion.
    fn has_resource_version(&self) -> bool {
        match self {
            Self::Json(operations) => operations
                .as_array()
                .into_iter()
                .flatten()
                .any(|operation| operation["path"] == "/metadata/resourceVersion"),
            Self::Merge(patch) | Self::Strategic(patch) | Self::Apply(patch) => {
                !meta::text(patch, "resourceVersion").is_empty()
            }
        }
    }
}

/// Parses the JSON of a JSON patch or a merge patch.
fn patch_text(body: &[u8], target: Target<'_>) -> Result<(Value, StrictErrors), Status> {
    body::parse_json_strictly(body, target)
        .map_err(|problem| Status::bad_request(format!("error decoding patch: {problem}")))
}

/// Errors if a merge patch is no object.
fn object(patch: Value) -> Result<Value, Status> {
    if patch.is_object() {
        return Ok(patch);
    }
    Err(Status::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
        go::json_type(&patch)
    )))
}

/// Returns the decoder's error about a patched object, whose kind may be another one than before.
fn decoding_error(endpoint: &Endpoint, schema: &Schema, patched: &Value) -> Option<String> {
    let kind = patched["kind"].as_str().unwrap_or_default();
    let other = (schema.is_built_in() && kind != endpoint.kind())
        .then(|| Schema::builtin(&endpoint.group, &endpoint.version, kind))
        .flatten();
    other.as_deref().unwrap_or(schema).json_error(patched)
}

/// Patches an object or one of its subresources; an apply may create the object.
pub(crate) async fn patch(
    state: &State,
    endpoint: &Endpoint,
    path: &ObjectPath,
    request: &Request,
    options: &WriteOptions,
    admission: &Admission<'_>,
) -> Result<WriteResult, Status> {
    let (namespace, name) =
        (path.namespace.as_deref().unwrap_or_default(), path.name.as_deref().unwrap_or_default());
    let target = UpdateTarget::from_subresource(path.subresource.as_deref());
    let parsed = Patch::parse(request, endpoint);
    // As in kube-apiserver, a malformed patch of an object that does not exist is not looked at.
    if parsed.as_ref().is_err_and(|status| status.code == 400)
        && !body::content_type(request).starts_with("application/apply-patch")
        && endpoint.resource.table.get(namespace, name).is_none()
    {
        return Err(Status::not_found(endpoint.resource_ref(), name));
    }
    let (parsed, found) = parsed?;
    match parsed {
        Patch::Apply(config) => {
            if request.query.get("fieldManager").is_none() {
                let cause = field::required("fieldManager", "is required for apply patch");
                return Err(invalid_options("PatchOptions", cause));
            }
            apply_patch(state, endpoint, path, (config, found.yaml), options, admission).await
        }
        patch => {
            let warnings = Mutex::new(Vec::new());
            let schema =
                if target == UpdateTarget::Scale { scale::schema() } else { endpoint.schema.clone() };
            let decode = |value: &mut Value| {
                let about = (endpoint, schema.as_deref());
                let texts = patch.decode_result(about, value, &found.fields, options.validation)?;
                *lock(&warnings) = texts;
                Ok::<_, Status>(())
            };
            let change = |old: &Value| {
                let value = if target == UpdateTarget::Scale {
                    let paths = endpoint.scale.as_ref().ok_or_else(Status::no_such_resource)?;
                    let mut scaled = patch.apply_to(None, &scale::from_object(endpoint, paths, old))?;
                    decode(&mut scaled)?;
                    scale::set_replicas(endpoint, paths, old, &scaled)?
                } else {
                    let mut value = patch.apply_to(endpoint.schema.as_deref(), old)?;
                    decode(&mut value)?;
                    value
                };
                check_identity(endpoint, old, &value)?;
                Ok(ProposedUpdate { value, applied: false, retry: !patch.has_resource_version() })
            };
            let options = WriteOptions { is_decoded: target != UpdateTarget::Scale, ..options.clone() };
            let key = (namespace, name);
            let written = update_admitted(state, endpoint, key, target, &options, admission, change).await;
            let warnings = std::mem::take(&mut *lock(&warnings));
            with_warnings(written, warnings)
        }
    }
}

/// Locks the warnings of the last attempt to patch an object.
fn lock(warnings: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    warnings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rejects a patch that changes the identity or the type of the object.
fn check_identity(endpoint: &Endpoint, old: &Value, new: &Value) -> Result<(), Status> {
    let (before, after) = (meta::text(old, "uid"), meta::text(new, "uid"));
    if !after.is_empty() && before != after {
        // In contrast to that of a PUT, the UID of a patch is no precondition. kube-apiserver validates the metadata twice.
        let cause = field::invalid("metadata.uid", &new["metadata"]["uid"], "field is immutable");
        return Err(Status::invalid(
            endpoint.resource_ref(),
            meta::text(old, "name"),
            vec![cause.clone(), cause],
        ));
    }
    for field in ["name", "namespace"] {
        let (before, after) = (meta::text(old, field), meta::text(new, field));
        if field == "name" && after.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({before} based on URL) was undeterminable: name must be provided"
            )));
        }
        if before != after {
            return Err(Status::bad_request(match field {
                "name" => {
                    format!("the name of the object ({after}) does not match the name on the URL ({before})")
                }
                _ => "the namespace of the provided object does not match the namespace sent on the request"
                    .into(),
            }));
        }
    }
    for field in ["apiVersion", "kind"] {
        if old[field] != new[field] {
            let problem =
                format!("{field} cannot be changed by a patch: {} is not {}", new[field], old[field]);
            return Err(Status::bad_request(problem));
        }
    }
    Ok(())
}

/// Returns the answer to an apply that fails. `config` is the configuration as the client sent it.
fn apply_error(endpoint: &Endpoint, config: &Value, error: ApplyError) -> Status {
    match error {
        ApplyError::Conflict { message, causes } => Status::apply_conflict(message, causes),
        ApplyError::Malformed(problem) => Status::bad_request(problem),
        ApplyError::Unconvertible(problem) => Status::unclassified(problem),
        ApplyError::Untyped(problem) => Status::unclassified(format!(
            "failed to create typed patch object ({}/{}; {}, Kind={}): {problem}",
            meta::text(config, "namespace"),
            meta::text(config, "name"),
            group_version(&endpoint.api_version),
            endpoint.kind()
        )),
    }
}

/// Returns an API version as Go prints a group and version: `apps/v1`, or `/v1` for the core group.
fn group_version(api_version: &str) -> String {
    if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") }
}

/// Errors unless an applied configuration has the API version and the kind.
fn check_applied_type(config: &Value, api_version: &str, kind: &str) -> Result<(), Status> {
    if !config.is_object() {
        return Ok(());
    }
    let [found_version, found_kind] =
        ["apiVersion", "kind"].map(|name| config[name].as_str().unwrap_or_default());
    if (found_version, found_kind) == (api_version, kind) {
        return Ok(());
    }
    let version = if found_version.is_empty() { "/".to_owned() } else { group_version(found_version) };
    Err(Status::bad_request(format!("invalid object type: {version}, Kind={found_kind}")))
}

/// Returns an applied configuration, that of the object itself for a Scale.
///
/// # Errors
/// Errors if it is not of the endpoint's kind, has another name than the path, or has not the form that its schema describes.
fn checked_config(
    endpoint: &Endpoint,
    target: UpdateTarget,
    name: &str,
    mut config: Value,
) -> Result<Value, Status> {
    if target == UpdateTarget::Scale {
        let paths = endpoint.scale.as_ref().ok_or_else(Status::no_such_resource)?;
        check_applied_type(&config, scale::API_VERSION, scale::KIND)?;
        body::check_type(&mut config, endpoint, scale::API_VERSION, scale::KIND)?;
        config = scale::applied_object(endpoint, paths, &config)?;
    }
    check_applied_type(&config, &endpoint.api_version, endpoint.kind())?;
    if !config.is_object() {
        body::check_type(&mut config, endpoint, &endpoint.api_version, endpoint.kind())?;
    }
    let given = meta::text(&config, "name").to_owned();
    if !given.is_empty() && given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    if let Some(schema) = &endpoint.schema {
        check_config(schema, &config).map_err(|error| apply_error(endpoint, &config, error))?;
    }
    Ok(config)
}

/// Server-side apply of a configuration. `duplicates` are the keys that its text has more than once.
async fn apply_patch(
    state: &State,
    endpoint: &Endpoint,
    path: &ObjectPath,
    (config, duplicates): (Value, Vec<String>),
    options: &WriteOptions,
    admission: &Admission<'_>,
) -> Result<WriteResult, Status> {
    let target = UpdateTarget::from_subresource(path.subresource.as_deref());
    let (namespace, name) = (path.namespace.as_deref(), path.name.as_deref().unwrap_or_default());
    let sent = checked_config(endpoint, target, name, config)?;
    let mut config = sent.clone();
    let metadata = meta::metadata_mut(&mut config);
    metadata.insert("name".into(), name.into());
    if metadata.get("resourceVersion").is_some_and(|version| version.is_null() || version == "") {
        metadata.remove("resourceVersion");
    }
    if let Some(namespace) = namespace {
        meta::metadata_mut(&mut config).entry("namespace").or_insert_with(|| namespace.into());
    }
    let mut warnings = Vec::new();
    if let Some(schema) = &endpoint.schema {
        let mut decoded = config.clone();
        warnings = admit::decode(endpoint, &mut decoded, options)?;
        schema.remove_unknown_fields(&mut config);
    }
    let time = state.now();
    let subresource = path.subresource.as_deref().unwrap_or_default();
    let writer = admit::writer(endpoint, options, subresource, &time);
    let schema =
        endpoint.schema.as_deref().ok_or_else(|| Status::internal("the kind has no schema to apply by"))?;
    let duplicate_keys = Mutex::new(Vec::new());
    let apply_to = |live: Option<&Value>| {
        let mut applied = apply(schema, live, &config, &writer, options.force)
            .map_err(|error| apply_error(endpoint, &config, error))?;
        // A Scale has no annotations.
        if target != UpdateTarget::Scale {
            update_last_applied(&mut applied, &sent, &writer);
        }
        // As in Kubernetes, a conflict is the error of a configuration that has both.
        if let (FieldValidation::Strict, Some(problem)) = (options.validation, yaml_error(&duplicates)) {
            let problem = format!("error strict decoding YAML: error converting YAML to JSON: {problem}");
            return Err(Status::bad_request(problem));
        }
        if options.validation == FieldValidation::Warn {
            lock(&duplicate_keys).clone_from(&duplicates);
        }
        Ok(applied)
    };
    let exists = endpoint.resource.table.get(namespace.unwrap_or_default(), name).is_some();
    let written = if exists || target != UpdateTarget::Object {
        let change = |old: &Value| {
            let value = apply_to(Some(old))?;
            Ok(ProposedUpdate {
                value,
                applied: true,
                retry: meta::text(&config, "resourceVersion").is_empty(),
            })
        };
        let key = (namespace.unwrap_or_default(), name);
        update_admitted(state, endpoint, key, target, options, admission, change).await
    } else {
        let uid = meta::text(&config, "uid");
        if !uid.is_empty() {
            let problem = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Status::conflict(endpoint.resource_ref(), name, &problem));
        }
        state.access.authorize_create(options.author.as_ref(), endpoint, namespace, name)?;
        create::create_applied(state, endpoint, namespace, apply_to(None)?, options, admission).await
    };
    warnings.append(&mut lock(&duplicate_keys));
    with_warnings(written, warnings)
}
