use serde_json::{Value, json};

use super::{Written, admit, kinds, meta};
use crate::crd;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::server::State;
use crate::status::Status;
use crate::storage::{Stored, WriteError};

/// How often a generated name that turns out to be taken is generated anew.
const NAME_ATTEMPTS: usize = 8;

/// Creates an object. `value` has `apiVersion` and `kind`; `namespace` is the path's.
pub(crate) fn create(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    value: Value,
    options: &WriteOptions,
) -> Result<Written, Status> {
    create_tracked(state, endpoint, namespace, value, options, false)
}

/// Creates an object from an applied configuration, which has its managed fields already.
pub(crate) fn create_applied(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    value: Value,
    options: &WriteOptions,
) -> Result<Written, Status> {
    create_tracked(state, endpoint, namespace, value, options, true)
}

fn create_tracked(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    mut value: Value,
    options: &WriteOptions,
    tracked: bool,
) -> Result<Written, Status> {
    let about = endpoint.about();
    check_scope(endpoint, namespace, &mut value)?;
    if !meta::text(&value, "resourceVersion").is_empty() {
        return Err(Status::resource_version_on_create());
    }
    if endpoint.resource.custom.as_ref().is_some_and(|custom| custom.terminating) {
        let problem = "create not allowed while custom resource definition is terminating";
        return Err(Status::method_not_allowed(problem));
    }
    let requested = meta::text(&value, "name").to_owned();
    let base = meta::text(&value, "generateName").to_owned();
    let warnings = admit::decode(endpoint, &mut value, options.validation)?;
    for attempt in 1.. {
        let mut value = value.clone();
        if requested.is_empty() && !base.is_empty() {
            meta::of(&mut value).insert("name".into(), meta::generate_name(&base).into());
        }
        prepare(state, endpoint, &mut value);
        admit::validate(endpoint, &value, None, kinds::causes_on_create(&value, endpoint))?;
        state.access.refuse_escalation(endpoint, None, &value, options.author.as_ref())?;
        if !tracked {
            admit::track(endpoint, None, &mut value, options, "", &state.now());
        }
        let name = meta::text(&value, "name").to_owned();
        match store(state, endpoint, namespace, value, options.dry_run) {
            Err(status)
                if status.reason == "AlreadyExists" && requested.is_empty() && attempt < NAME_ATTEMPTS => {}
            Err(status) => return Err(status),
            Ok(object) => {
                crd::after_write(state, endpoint, &name, options.dry_run);
                return Ok(Written { object, created: true, warnings });
            }
        }
    }
    unreachable!("the last attempt returns; {about:?}")
}

/// Makes the object's namespace agree with the path's.
fn check_scope(endpoint: &Endpoint, namespace: Option<&str>, value: &mut Value) -> Result<(), Status> {
    match namespace {
        Some(namespace) if endpoint.resource.namespaced => {
            let found = meta::text(value, "namespace");
            if !found.is_empty() && found != namespace {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            meta::of(value).insert("namespace".into(), namespace.into());
        }
        None if endpoint.resource.namespaced => {
            return Err(Status::bad_request("an empty namespace may not be set during creation"));
        }
        _ => drop(meta::of(value).remove("namespace")),
    }
    Ok(())
}

/// Sets what only the server sets on a new object.
fn prepare(state: &State, endpoint: &Endpoint, value: &mut Value) {
    let now = state.now();
    let metadata = meta::of(value);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
        metadata.remove(field);
    }
    metadata.insert("uid".into(), meta::new_uid().into());
    metadata.insert("creationTimestamp".into(), now.as_str().into());
    if endpoint.resource.rules.generation || endpoint.resource.custom.is_some() {
        metadata.insert("generation".into(), json!(1));
    }
    kinds::prepare_create(state, endpoint, value, &now);
}

fn store(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    value: Value,
    dry_run: bool,
) -> Result<std::sync::Arc<Stored>, Status> {
    let about = endpoint.about();
    let table = &endpoint.resource.table;
    let name = meta::text(&value, "name").to_owned();
    let draft = endpoint.resource.draft(endpoint.stored(value));
    // Held until the object is stored, so that its namespace cannot begin to end in between.
    let frozen = namespace.map(|_| state.namespaces.freeze());
    if let Some(namespace) = namespace {
        let found = frozen.as_ref().and_then(|namespaces| namespaces.get("", namespace));
        match found {
            None => {
                let namespaces = state.registry();
                let about = namespaces.endpoint("", "v1", "namespaces").map_or(about, |found| found.about());
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
            None => Ok(std::sync::Arc::new(Stored::unwritten(draft))),
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
