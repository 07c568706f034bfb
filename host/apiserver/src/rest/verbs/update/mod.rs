//! Updates objects and their subresources.

mod new_state;
mod preconditions;

use std::sync::Arc;

use serde_json::Value;

pub(in crate::rest) use new_state::prepare;
use preconditions::check_preconditions;
pub(in crate::rest) use preconditions::check_uid;

use crate::admission::{Admission, NoBuiltIn, Objects, Operation, WriteRequest};
use crate::meta;
use crate::patch::apply::{finish_scale, track_scale_update};
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::built_in_admission::quota;
use crate::rest::kinds::{
    certificates, crd_sync, param_rights, storage_warnings, strategy, warnings as kind_warnings,
};
use crate::rest::subresources::scale;
use crate::rest::write_steps::internal::{ControllerAdmission, complete};
use crate::rest::write_steps::owner_references::{self, Step};
use crate::rest::write_steps::{admit, tracking, unchanged};
use crate::rest::{WriteResult, built_in_admission};
use crate::state::State;
use crate::status::Status;
use crate::storage::{ObjectDraft, StoredObject, WriteError};

/// How often an update without a resourceVersion is attempted when other writes conflict with it.
const MAX_CONFLICT_ATTEMPTS: usize = 16;

/// What an update changes: the object itself or one of its subresources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateTarget {
    /// The object, without the status if that is a subresource.
    Object,
    /// The status.
    Status,
    /// The conditions of a CertificateSigningRequest, through `/approval`.
    Approval,
    /// A namespace's `spec.finalizers`.
    Finalize,
    /// The node of a Pod and its annotations, through `/binding`.
    Binding,
    /// The ephemeral containers of a Pod.
    EphemeralContainers,
    /// The resources of a Pod's containers.
    Resize,
    /// The replicas, through `/scale`. Validated like [`Self::Object`], and increments the generation like it.
    Scale,
}

impl UpdateTarget {
    /// Returns the target for the subresource of a request path.
    pub(crate) fn from_subresource(subresource: Option<&str>) -> Self {
        match subresource {
            Some("status") => Self::Status,
            Some("approval") => Self::Approval,
            Some("finalize") => Self::Finalize,
            Some("ephemeralcontainers") => Self::EphemeralContainers,
            Some("resize") => Self::Resize,
            Some("scale") => Self::Scale,
            _ => Self::Object,
        }
    }

    fn subresource(self) -> &'static str {
        match self {
            Self::Object => "",
            Self::Status => "status",
            Self::Approval => "approval",
            Self::Finalize => "finalize",
            Self::Binding => "binding",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Scale => "scale",
        }
    }
}

/// The state that an update writes if it is valid.
pub(crate) struct ProposedUpdate {
    pub value: Value,
    /// Whether the managed fields are already up to date, because the value is the result of an apply.
    pub applied: bool,
    /// Whether to retry with the new state after a conflicting write, because the client gave no resourceVersion.
    pub retry: bool,
}

/// Replaces an object by the result of `change`, which gets the current state in the served version. For controllers.
///
/// After a conflicting write, `change` is called again with the new state if it returned `retry`.
pub(crate) fn update(
    state: &State,
    endpoint: &Endpoint,
    key: (&str, &str),
    target: UpdateTarget,
    options: &WriteOptions,
    change: impl Fn(&Value) -> Result<ProposedUpdate, Status>,
) -> Result<WriteResult, Status> {
    let stored = storage_endpoint(state, endpoint);
    let endpoint = stored.as_deref().unwrap_or(endpoint);
    let controller = ControllerAdmission::begin(state, endpoint, &options.manager);
    let admission = controller.admission();
    controller.complete(update_admitted(state, endpoint, key, target, options, admission, change))
}

/// Replaces an object as [`update`] does, without admission.
pub(crate) fn update_unchecked(
    state: &State,
    endpoint: &Endpoint,
    key: (&str, &str),
    target: UpdateTarget,
    options: &WriteOptions,
    change: impl Fn(&Value) -> Result<ProposedUpdate, Status>,
) -> Result<WriteResult, Status> {
    complete(update_admitted(state, endpoint, key, target, options, &Admission::bypassed(), change))
}

/// Returns the endpoint that serves custom resources as they are stored, so that no webhook needs to convert them.
fn storage_endpoint(state: &State, endpoint: &Endpoint) -> Option<Arc<Endpoint>> {
    let custom = endpoint.resource.custom.as_ref().filter(|_| endpoint.webhook.is_some())?;
    let (group, version) = custom.storage_version.split_once('/')?;
    state.registry().endpoint(group, version, &endpoint.resource.names.plural).cloned()
}

/// Replaces an object as [`update`] does; admission may change or refuse the new state.
pub(crate) async fn update_admitted(
    state: &State,
    endpoint: &Endpoint,
    key: (&str, &str),
    target: UpdateTarget,
    options: &WriteOptions,
    admission: &Admission<'_>,
    change: impl Fn(&Value) -> Result<ProposedUpdate, Status>,
) -> Result<WriteResult, Status> {
    let (namespace, name) = key;
    let table = &endpoint.resource.table;
    let write = WriteRequest {
        operation: Operation::Update,
        endpoint,
        subresource: target.subresource(),
        namespace,
        name,
        dry_run: options.dry_run,
    };
    for attempt in 1.. {
        let current =
            table.get(namespace, name).ok_or_else(|| Status::not_found(endpoint.resource_ref(), name))?;
        let present = endpoint.present(Arc::clone(&current)).await?;
        let old = endpoint.served_value(&present);
        let ProposedUpdate { value: mut new, applied, retry } = change(&old)?;
        check_preconditions(endpoint, name, target, &old, &new)?;
        let decode = if applied { admit::decode_applied } else { admit::decode };
        let mut warnings = decode(endpoint, &mut new, options)?;
        warnings.dedup();
        let is_tracked = applied || (admission.is_active() && target != UpdateTarget::Scale);
        let unowned = (!applied).then_some(options);
        let sent = mutate(state, &write, target, (&old, &mut new), unowned, admission).await?;
        warnings.extend(owner_references::remove_duplicates(&mut new, Step::Admission));
        let keeps_sent = !is_tracked && tracking::keeps_sent(endpoint, target);
        let sent = sent.or_else(|| keeps_sent.then(|| new.clone()));
        let causes = prepare(state, endpoint, target, &old, &mut new);
        match admit::validate(endpoint, &new, Some(&old), causes) {
            Ok(tolerated) => warnings.extend(tolerated),
            Err(status) => return Err(status.with_warnings(warnings)),
        }
        state.access.check_escalation(endpoint, Some(&old), &new, options.author.as_ref())?;
        let states = (Some(&old), &new);
        param_rights::check(state, endpoint, target, states, options.author.as_ref())?;
        certificates::check_signer(state, endpoint, target, states, options.author.as_deref())?;
        let refused = |status: Status| {
            status.with_warnings(warnings_of_update((endpoint, target), &old, &new, &warnings))
        };
        built_in_admission::validate_update(state, &write, target, (&old, &new), admission.notes())
            .map_err(refused)?;
        if !is_tracked {
            track(state, &write, target, (&old, &mut new), sent, options);
        }
        strategy::finish_update(state, endpoint, target, &old, &mut new);
        if let (UpdateTarget::Scale, Some(paths)) = (target, &endpoint.scale) {
            remove_times_of_scale(&mut new);
            finish_scale(&mut new, &paths.spec_replicas);
        }
        if admission.is_active() {
            let validated = validate(&write, target, &old, &new, admission).await;
            validated.map_err(|status| {
                status.with_warnings(warnings_of_update((endpoint, target), &old, &new, &warnings))
            })?;
        }
        // As in Kubernetes, an update without a change writes an object whose stored form is outdated.
        if unchanged::is_unchanged(&old, &new) && !endpoint.has_outdated_form(&current) {
            let mut warnings = warnings_of_update((endpoint, target), &old, &new, &warnings);
            warnings.extend(admission.take_warnings());
            return Ok(WriteResult { object: current, created: false, warnings });
        }
        let mut warnings = warnings_of_update((endpoint, target), &old, &new, &warnings);
        let stored = store_charged(state, &write, &current, (&old, new)).await;
        let stored = stored.map_err(|status| status.with_warnings(warnings.clone()));
        match stored? {
            Ok(object) => {
                crd_sync::after_write(state, endpoint, name, options.dry_run);
                warnings.extend(admission.take_warnings());
                return Ok(WriteResult { object, created: false, warnings });
            }
            Err(WriteError::TooLarge(bytes)) => return Err(Status::too_large_for_storage(Some(bytes))),
            Err(_) if retry && attempt < MAX_CONFLICT_ATTEMPTS => {}
            Err(_) => return Err(Status::modified(endpoint.resource_ref(), name)),
        }
    }
    unreachable!("the last attempt returns")
}

/// Records who manages which fields of the new state. `sent` is the state that the client sent, if admission changed it.
fn track(
    state: &State,
    write: &WriteRequest<'_>,
    target: UpdateTarget,
    (old, new): (&Value, &mut Value),
    sent: Option<Value>,
    options: &WriteOptions,
) {
    match &write.endpoint.scale {
        Some(paths) if target == UpdateTarget::Scale => {
            let now = state.now();
            let writer = admit::writer(write.endpoint, options, write.subresource, &now);
            track_scale_update(old, new, &writer, &paths.spec_replicas);
        }
        _ => tracking::track_update(state, write, old, new, sent, options),
    }
}

/// Returns the warnings about a valid update, after those about its decoding.
fn warnings_of_update(
    (endpoint, target): (&Endpoint, UpdateTarget),
    old: &Value,
    new: &Value,
    decoding: &[String],
) -> Vec<String> {
    let mut warnings = decoding.to_vec();
    warnings.extend(kind_warnings::on_write(endpoint, new));
    warnings.extend(kind_warnings::on_changed_pods(endpoint, old, new));
    if target == UpdateTarget::Object {
        warnings.extend(storage_warnings::of_object(endpoint, new, false));
    }
    warnings.extend(kind_warnings::on_new_finalizers(endpoint, new, Some(old)));
    warnings
}

/// Removes the times of the managers of `/scale`. As in kube-apiserver, their entries have none.
fn remove_times_of_scale(new: &mut Value) {
    for entry in new["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
        if entry["subresource"] == "scale" {
            entry.as_object_mut().map(|entry| entry.remove("time"));
        }
    }
}

/// Lets admission change the new state. If it does, returns the state as the client sent it. Policies and webhooks see the managed fields, which are
/// recorded first if `unowned` has the options of the write.
async fn mutate(
    state: &State,
    write: &WriteRequest<'_>,
    target: UpdateTarget,
    (old, new): (&Value, &mut Value),
    unowned: Option<&WriteOptions>,
    admission: &Admission<'_>,
) -> Result<Option<Value>, Status> {
    let endpoint = write.endpoint;
    let is_pod = target == UpdateTarget::Object && endpoint.is_core("pods");
    if !admission.is_active() && !is_pod {
        return Ok(None);
    }
    let sent = new.clone();
    match &endpoint.scale {
        // The object of `/scale` is the Scale.
        Some(paths) if target == UpdateTarget::Scale => {
            let mut scaled = Some(scale::from_object(endpoint, paths, new));
            let before = scaled.clone();
            let old = scale::from_object(endpoint, paths, old);
            admission.mutate(write, &mut scaled, Some(&old), &NoBuiltIn).await?;
            if scaled == before {
                return Ok(None);
            }
            *new = scale::set_replicas(endpoint, paths, new, &scaled.unwrap_or_default())?;
            admit::decode_mutated(endpoint, new)?;
        }
        _ => {
            if let Some(options) = unowned.filter(|_| admission.is_active()) {
                tracking::track_before_admission(state, write, old, new, options);
            }
            let managed = new["metadata"]["managedFields"].clone();
            let mut object = Some(new.take());
            let plugins = built_in_admission::OfUpdate { state, endpoint, target, old };
            admission.mutate(write, &mut object, Some(old), &plugins).await?;
            *new = object.unwrap_or_default();
            if admission.is_active() {
                tracking::restore_if_invalid(&managed, new, admission.notes());
            }
        }
    }
    Ok((sent != *new).then_some(sent))
}

/// Asks admission whether the new state is allowed.
async fn validate(
    write: &WriteRequest<'_>,
    target: UpdateTarget,
    old: &Value,
    new: &Value,
    admission: &Admission<'_>,
) -> Result<(), Status> {
    let endpoint = write.endpoint;
    match &endpoint.scale {
        Some(paths) if target == UpdateTarget::Scale => {
            let [old, new] = [old, new].map(|object| scale::from_object(endpoint, paths, object));
            admission.validate(write, Objects { new: Some(&new), old: Some(&old) }).await
        }
        _ => admission.validate(write, Objects { new: Some(new), old: Some(old) }).await,
    }
}

/// Stores the new state as [`store`] does, and charges the quotas of its namespace for it.
async fn store_charged(
    state: &State,
    write: &WriteRequest<'_>,
    current: &Arc<StoredObject>,
    (old, new): (&Value, Value),
) -> Result<Result<Arc<StoredObject>, WriteError>, Status> {
    // Converted first, so that nothing waits between the charge and the write.
    let new = write.endpoint.to_storage(new).await?;
    let charge = quota::charge(state, write, &new, Some(old))?;
    let stored = store(state, write.endpoint, current, new, write.dry_run);
    if stored.is_err() {
        charge.take_back(state);
    }
    Ok(stored)
}

/// Stores the new state, or removes the object if this completes its deletion.
fn store(
    state: &State,
    endpoint: &Endpoint,
    current: &Arc<StoredObject>,
    new: Value,
    dry_run: bool,
) -> Result<Arc<StoredObject>, WriteError> {
    let table = &endpoint.resource.table;
    let deletion_complete = is_deletion_complete(endpoint, &new);
    let draft = endpoint.draft(new);
    if dry_run {
        return Ok(Arc::new(StoredObject::unwritten(draft)));
    }
    if deletion_complete {
        // As in kube-apiserver, the response has the resourceVersion before the deletion.
        let last = Arc::new(StoredObject::unwritten(draft));
        // The event of the deletion has the state before this update.
        let removed = ObjectDraft { schema: current.schema, ..endpoint.resource.draft(current.value()) };
        table.delete(current, removed)?;
        crd_sync::after_delete(state, endpoint);
        return Ok(last);
    }
    table.update(current, draft)
}

/// Whether an object is being deleted and nothing delays its removal any more.
fn is_deletion_complete(endpoint: &Endpoint, value: &Value) -> bool {
    let metadata = &value["metadata"];
    metadata["deletionTimestamp"].is_string()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && meta::finalizers(value).is_empty()
        && (!strategy::is_namespace(endpoint)
            || value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty))
}
