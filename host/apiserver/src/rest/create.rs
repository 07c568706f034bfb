//! Creates objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{WriteResult, admit, crd_sync, defaults, strategy};
use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::state::State;
use crate::status::Status;
use crate::storage::{StoredObject, WriteError};

/// How many names are generated before a conflict is reported.
const MAX_NAME_ATTEMPTS: usize = 8;

/// Creates an object. `value` has `apiVersion` and `kind`; `namespace` is that of the request path.
pub(crate) fn create(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    value: Value,
    options: &WriteOptions,
) -> Result<WriteResult, Status> {
    create_tracked(state, endpoint, namespace, value, options, false)
}

/// Creates an object from an applied configuration, which already has its managed fields.
pub(crate) fn create_applied(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    value: Value,
    options: &WriteOptions,
) -> Result<WriteResult, Status> {
    create_tracked(state, endpoint, namespace, value, options, true)
}

fn create_tracked(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    mut value: Value,
    options: &WriteOptions,
    tracked: bool,
) -> Result<WriteResult, Status> {
    let about = endpoint.resource_ref();
    check_scope(endpoint, namespace, &mut value)?;
    if !meta::text(&value, "resourceVersion").is_empty() {
        return Err(Status::resource_version_on_create());
    }
    if endpoint.resource.custom.as_ref().is_some_and(|custom| custom.terminating) {
        let problem = "create not allowed while custom resource definition is terminating";
        return Err(Status::method_not_allowed(problem));
    }
    let requested = meta::text(&value, "name").to_owned();
    let name_prefix = meta::text(&value, "generateName").to_owned();
    let warnings = admit::decode(endpoint, &mut value, options.validation)?;
    for attempt in 1.. {
        let mut value = value.clone();
        if requested.is_empty() && !name_prefix.is_empty() {
            meta::metadata_mut(&mut value).insert("name".into(), meta::generate_name(&name_prefix).into());
        }
        prepare(state, endpoint, &mut value);
        admit::validate(endpoint, &value, None, strategy::validate_create(&value, endpoint))?;
        state.access.check_escalation(endpoint, None, &value, options.author.as_ref())?;
        if !tracked {
            admit::track_managed_fields(endpoint, None, &mut value, options, "", &state.now());
        }
        defaults::on_create(state, endpoint, &mut value)?;
        let name = meta::text(&value, "name").to_owned();
        match store(state, endpoint, namespace, value, options.dry_run) {
            Err(status)
                if status.reason == "AlreadyExists"
                    && requested.is_empty()
                    && attempt < MAX_NAME_ATTEMPTS => {}
            Err(status) => return Err(status),
            Ok(object) => {
                crd_sync::after_write(state, endpoint, &name, options.dry_run);
                return Ok(WriteResult { object, created: true, warnings });
            }
        }
    }
    unreachable!("the last attempt returns; {about:?}")
}

/// Sets the object's namespace to that of the path, or rejects an object with another namespace.
fn check_scope(endpoint: &Endpoint, namespace: Option<&str>, value: &mut Value) -> Result<(), Status> {
    match namespace {
        Some(namespace) if endpoint.resource.namespaced => {
            let found = meta::text(value, "namespace");
            if !found.is_empty() && found != namespace {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            meta::metadata_mut(value).insert("namespace".into(), namespace.into());
        }
        None if endpoint.resource.namespaced => {
            return Err(Status::bad_request("an empty namespace may not be set during creation"));
        }
        _ => drop(meta::metadata_mut(value).remove("namespace")),
    }
    Ok(())
}

/// Sets the fields of a new object that only the server sets.
fn prepare(state: &State, endpoint: &Endpoint, value: &mut Value) {
    let now = state.now();
    let metadata = meta::metadata_mut(value);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
        metadata.remove(field);
    }
    metadata.insert("uid".into(), meta::new_uid().into());
    metadata.insert("creationTimestamp".into(), now.as_str().into());
    if endpoint.resource.strategy.tracks_generation || endpoint.resource.custom.is_some() {
        metadata.insert("generation".into(), json!(1));
    }
    strategy::prepare_create(state, endpoint, value, &now);
}

fn store(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    value: Value,
    dry_run: bool,
) -> Result<Arc<StoredObject>, Status> {
    let about = endpoint.resource_ref();
    let table = &endpoint.resource.table;
    let name = meta::text(&value, "name").to_owned();
    let draft = endpoint.draft(value);
    // Locked until the object is stored, so that its namespace cannot start terminating in between.
    let namespaces = namespace.map(|_| state.namespaces.lock_read());
    if let Some(namespace) = namespace {
        match namespaces.as_ref().and_then(|namespaces| namespaces.get("", namespace)) {
            None => {
                let registry = state.registry();
                let about =
                    registry.endpoint("", "v1", "namespaces").map_or(about, |found| found.resource_ref());
                return Err(Status::not_found(about, namespace));
            }
            Some(found) if found.deleting => {
                return Err(Status::namespace_terminating(about, &name, namespace));
            }
            Some(_) => {}
        }
    }
    if dry_run {
        return match table.get(namespace.unwrap_or_default(), &name) {
            Some(_) => Err(Status::already_exists(about, &name)),
            None => Ok(Arc::new(StoredObject::unwritten(draft))),
        };
    }
    table.create(draft).map_err(|error| match error {
        WriteError::Exists
            if table.get(namespace.unwrap_or_default(), &name).is_some_and(|found| found.deleting) =>
        {
            Status::already_exists_deleting(about, &name)
        }
        WriteError::Exists | WriteError::Changed => Status::already_exists(about, &name),
    })
}
