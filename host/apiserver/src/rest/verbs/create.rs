//! Creates objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::update::UpdateTarget;
use crate::admission::{Admission, Objects, Operation, WriteRequest};
use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::built_in_admission::{quota, service_accounts};
use crate::rest::kinds::{
    certificates, crd_sync, param_rights, pods, services, storage_warnings, strategy,
    warnings as kind_warnings,
};
use crate::rest::write_steps::internal::ControllerAdmission;
use crate::rest::write_steps::owner_references::{self, Step};
use crate::rest::write_steps::{admit, tracking};
use crate::rest::{WriteResult, built_in_admission, with_warnings};
use crate::state::State;
use crate::status::Status;
use crate::storage::{StoredObject, WriteError};

/// How many names are generated before a conflict is reported.
const MAX_NAME_ATTEMPTS: usize = 8;

/// Creates an object for a controller. `value` has `apiVersion` and `kind`; `namespace` is that of the request path.
pub(crate) fn create(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    value: Value,
    options: &WriteOptions,
) -> Result<WriteResult, Status> {
    let controller = ControllerAdmission::begin(state, endpoint, &options.manager);
    let admission = controller.admission();
    controller.complete(create_admitted(state, endpoint, namespace, value, options, admission))
}

/// Creates an object that admission may change or refuse.
pub(crate) async fn create_admitted(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    value: Value,
    options: &WriteOptions,
    admission: &Admission<'_>,
) -> Result<WriteResult, Status> {
    create_tracked(state, endpoint, namespace, (value, false), options, admission).await
}

/// Creates an object from an applied configuration, which already has its managed fields.
pub(crate) async fn create_applied(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    mut value: Value,
    options: &WriteOptions,
    admission: &Admission<'_>,
) -> Result<WriteResult, Status> {
    // As in Kubernetes, the resourceVersion of a configuration does not matter as long as the object does not exist.
    meta::metadata_mut(&mut value).remove("resourceVersion");
    create_tracked(state, endpoint, namespace, (value, true), options, admission).await
}

/// Creates an object. The flag says whether it already has its managed fields.
async fn create_tracked(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    (mut value, tracked): (Value, bool),
    options: &WriteOptions,
    admission: &Admission<'_>,
) -> Result<WriteResult, Status> {
    let about = endpoint.resource_ref();
    check_scope(endpoint, namespace, &mut value)?;
    if endpoint.resource.custom.as_ref().is_some_and(|custom| custom.terminating) {
        return Err(Status::method_not_supported(
            about,
            "create not allowed while custom resource definition is terminating",
        ));
    }
    let decode = if tracked { admit::decode_applied } else { admit::decode };
    let warnings = decode(endpoint, &mut value, options)?;
    with_warnings(
        create_decoded(state, endpoint, namespace, (value, tracked), options, admission).await,
        warnings,
    )
}

async fn create_decoded(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    (mut value, tracked): (Value, bool),
    options: &WriteOptions,
    admission: &Admission<'_>,
) -> Result<WriteResult, Status> {
    let about = endpoint.resource_ref();
    let before_mutation =
        mutate(state, endpoint, namespace, (&mut value, tracked), options, admission).await?;
    let version = meta::text(&value, "resourceVersion").to_owned();
    let tracked = tracked || admission.is_active();
    let duplicate_owners = owner_references::remove_duplicates(&mut value, Step::Admission);
    let requested = meta::text(&value, "name").to_owned();
    let name_prefix = meta::text(&value, "generateName").to_owned();
    for attempt in 1.. {
        let mut value = value.clone();
        if requested.is_empty() && !name_prefix.is_empty() {
            meta::metadata_mut(&mut value)
                .insert("name".into(), state.identifiers.generate_name(&name_prefix).into());
        }
        prepare_metadata(state, endpoint, &mut value);
        if !tracked {
            // Before the strategy: the client does not own what the server allocates.
            track(state, endpoint, &mut value, before_mutation.as_ref(), options);
        }
        strategy::prepare_create(state, endpoint, &mut value, &state.now());
        // As in Kubernetes, a Service that is created through its status gets no addresses.
        let is_new_service = options.created_through.is_empty() && endpoint.is_core("services");
        let _reserved =
            is_new_service.then(|| services::allocate(state, endpoint, &mut value)).transpose()?;
        if certificates::is_signing_request(endpoint)
            && let Some(user) = &options.requester
        {
            certificates::set_requester(&mut value, user);
        }
        let profiles = match endpoint.is_core("pods") {
            true => pods::profiles::set_app_armor(&mut value),
            false => Vec::new(),
        };
        let causes = strategy::validate_create(state, &value, endpoint);
        let valid = admit::validate(endpoint, &value, None, causes);
        let valid = valid.map_err(|status| status.with_warnings(profiles.clone()))?;
        let mut warnings: Vec<String> = profiles.into_iter().chain(valid).collect();
        warnings.extend(kind_warnings::on_write(endpoint, &value));
        warnings.extend(kind_warnings::on_create(endpoint, &value));
        warnings.extend(kind_warnings::on_new_pods(endpoint, &value));
        warnings.extend(storage_warnings::of_object(endpoint, &value, true));
        warnings.extend(kind_warnings::on_new_finalizers(endpoint, &value, None));
        warnings.extend(duplicate_owners.clone());
        let stored = store_checked(state, endpoint, namespace, (value, &version), options, admission).await;
        match stored {
            Err(status)
                if status.reason == "AlreadyExists"
                    && requested.is_empty()
                    && attempt < MAX_NAME_ATTEMPTS => {}
            Err(status) => return Err(status.with_warnings(warnings)),
            Ok(object) => {
                crd_sync::after_write(state, endpoint, &object.name, options.dry_run);
                warnings.extend(admission.take_warnings());
                return Ok(WriteResult { object, created: true, warnings });
            }
        }
    }
    unreachable!("the last attempt returns; {about:?}")
}

/// Stores a new object unless what validates it after its schema refuses it.
async fn store_checked(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    (value, version): (Value, &str),
    options: &WriteOptions,
    admission: &Admission<'_>,
) -> Result<Arc<StoredObject>, Status> {
    state.access.check_escalation(endpoint, None, &value, options.author.as_ref())?;
    let change = (None, &value);
    param_rights::check(state, endpoint, UpdateTarget::Object, change, options.author.as_ref())?;
    certificates::check_signer(state, endpoint, UpdateTarget::Object, change, options.author.as_deref())?;
    let name = meta::text(&value, "name").to_owned();
    let write = write_request(endpoint, namespace, &name, options);
    built_in_admission::validate_creation(state, &write, &value, admission.notes())?;
    if admission.is_active() {
        admission.validate(&write, Objects { new: Some(&value), old: None }).await?;
    }
    // Converted first, because the controller removes the charge of an object that waits for a webhook and is not stored yet.
    let value = endpoint.to_storage(value).await?;
    let charge = quota::charge(state, &write, &value, None)?;
    let stored = store(state, endpoint, namespace, (value, version), options.dry_run);
    if stored.is_err() {
        charge.take_back(state);
    }
    stored
}

fn write_request<'a>(
    endpoint: &'a Endpoint,
    namespace: Option<&'a str>,
    name: &'a str,
    options: &WriteOptions,
) -> WriteRequest<'a> {
    WriteRequest {
        operation: Operation::Create,
        endpoint,
        subresource: "",
        namespace: namespace.unwrap_or_default(),
        name,
        dry_run: options.dry_run,
    }
}

/// Lets admission change a new object. If it does, returns the object as the client sent it. Policies and webhooks see the managed fields, which the
/// object has already if `tracked` is true.
async fn mutate(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    (value, tracked): (&mut Value, bool),
    options: &WriteOptions,
    admission: &Admission<'_>,
) -> Result<Option<Value>, Status> {
    if let Some(namespace) = namespace {
        // The first plugin of kube-apiserver is that for the namespace.
        let found = state.namespaces.get("", namespace);
        check_namespace(state, endpoint, found.as_ref(), namespace, meta::shown_name(value))?;
    }
    if options.may_wait {
        service_accounts::await_default(state, endpoint, namespace, value).await;
    }
    if !admission.is_active() && !built_in_admission::may_change_creation(endpoint) {
        return Ok(None);
    }
    let before = value.clone();
    if admission.is_active() && !tracked {
        track(state, endpoint, value, Some(&before), options);
    }
    let managed = value["metadata"]["managedFields"].clone();
    let mut new = Some(value.take());
    let write = write_request(endpoint, namespace, meta::text(&before, "name"), options);
    let plugins = built_in_admission::OfCreation { state, endpoint, namespace };
    admission.mutate(&write, &mut new, None, &plugins).await?;
    *value = new.unwrap_or_default();
    if admission.is_active() {
        tracking::restore_if_invalid(&managed, value, admission.notes());
    }
    Ok((before != *value).then_some(before))
}

/// Records the managed fields of a new object. The client owns what it sent, not what admission added.
fn track(
    state: &State,
    endpoint: &Endpoint,
    value: &mut Value,
    before_mutation: Option<&Value>,
    options: &WriteOptions,
) {
    let now = state.now();
    let Some(before) = before_mutation else {
        return admit::track_managed_fields(endpoint, None, value, options, options.created_through, &now);
    };
    let mut sent = before.clone();
    prepare_metadata(state, endpoint, &mut sent);
    admit::track_managed_fields(endpoint, None, &mut sent, options, options.created_through, &now);
    admit::copy_managed_fields(&mut sent, value);
}

/// Sets the object's namespace to that of the path, or rejects an object with another namespace.
pub(in crate::rest) fn check_scope(
    endpoint: &Endpoint,
    namespace: Option<&str>,
    value: &mut Value,
) -> Result<(), Status> {
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

/// Sets the metadata of a new object that only the server sets.
fn prepare_metadata(state: &State, endpoint: &Endpoint, value: &mut Value) {
    let now = state.now();
    let metadata = meta::metadata_mut(value);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(field);
    }
    metadata.insert("uid".into(), state.identifiers.new_uid().into());
    metadata.insert("creationTimestamp".into(), now.as_str().into());
    // As in Kubernetes, the generation of a kind that has none is what the client says.
    if endpoint.resource.strategy.tracks_generation || endpoint.resource.custom.is_some() {
        metadata.insert("generation".into(), json!(1));
    }
}

/// Errors if the namespace of a new object does not exist, or is being deleted.
fn check_namespace(
    state: &State,
    endpoint: &Endpoint,
    found: Option<&Arc<StoredObject>>,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    let about = endpoint.resource_ref();
    match found {
        None => {
            let registry = state.registry();
            let about = registry.endpoint("", "v1", "namespaces").map_or(about, |found| found.resource_ref());
            Err(Status::not_found(about, namespace))
        }
        Some(found) if found.deleting => Err(Status::namespace_terminating(about, name, namespace)),
        Some(_) => Ok(()),
    }
}

/// Stores a new object. `version` is the resourceVersion that the client sent, with which only a dry run creates.
fn store(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    (mut value, version): (Value, &str),
    dry_run: bool,
) -> Result<Arc<StoredObject>, Status> {
    let about = endpoint.resource_ref();
    let table = &endpoint.resource.table;
    let name = meta::text(&value, "name").to_owned();
    if dry_run && !version.is_empty() {
        meta::metadata_mut(&mut value).insert("resourceVersion".into(), version.into());
    }
    let draft = endpoint.draft(value);
    // Locked until the object is stored, so that its namespace cannot start terminating in between.
    let namespaces = namespace.map(|_| state.namespaces.lock_read());
    if let Some(namespace) = namespace {
        let found = namespaces.as_ref().and_then(|namespaces| namespaces.get("", namespace));
        check_namespace(state, endpoint, found, namespace, &name)?;
    }
    if dry_run {
        return match table.get(namespace.unwrap_or_default(), &name) {
            Some(_) => Err(Status::already_exists(about, &name)),
            None => Ok(Arc::new(StoredObject::unwritten(draft))),
        };
    }
    // As in Kubernetes, what is no number is no version.
    if version.parse::<u64>().is_ok_and(|version| version != 0) {
        return Err(Status::resource_version_on_create());
    }
    table.create(draft).map_err(|error| match error {
        WriteError::Exists
            if table.get(namespace.unwrap_or_default(), &name).is_some_and(|found| found.deleting) =>
        {
            Status::already_exists_deleting(about, &name)
        }
        WriteError::Exists | WriteError::Changed => Status::already_exists(about, &name),
        WriteError::TooLarge(bytes) => Status::too_large_for_storage(Some(bytes)),
    })
}
