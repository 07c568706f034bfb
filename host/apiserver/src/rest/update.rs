//! Updates objects and their subresources.

use std::sync::Arc;

use pilothouse_model::hash::HashSet;
use serde_json::{Value, json};

use super::internal::{ControllerAdmission, complete};
use super::owner_references::{self, Step};
use super::{
    WriteResult, admit, built_in, certificates, crd_sync, pods, quota, scale, strategy, tracking, unchanged,
    warnings as kind_warnings,
};
use crate::admission::{Admission, NoBuiltIn, Objects, Operation, WriteRequest};
use crate::go;
use crate::meta;
use crate::patch::apply::{finish_scale, track_scale_update};
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::schema::field;
use crate::state::State;
use crate::status::{Cause, ResourceRef, Status};
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
        certificates::check_signer(state, endpoint, target, states, options.author.as_deref())?;
        let refused =
            |status: Status| status.with_warnings(warnings_of_update(endpoint, &old, &new, &warnings));
        built_in::validate_update(state, &write, target, (&old, &new), admission.notes()).map_err(refused)?;
        if let (UpdateTarget::Scale, false, Some(paths)) = (target, applied, &endpoint.scale) {
            let now = state.now();
            let writer = admit::writer(endpoint, options, write.subresource, &now);
            track_scale_update(&old, &mut new, &writer, &paths.spec_replicas);
        } else if !is_tracked {
            tracking::track_update(state, &write, &old, &mut new, sent, options);
        }
        strategy::finish_update(state, endpoint, target, &old, &mut new);
        if let (UpdateTarget::Scale, Some(paths)) = (target, &endpoint.scale) {
            remove_times_of_scale(&mut new);
            finish_scale(&mut new, &paths.spec_replicas);
        }
        if admission.is_active() {
            let validated = validate(&write, target, &old, &new, admission).await;
            validated.map_err(|status| {
                status.with_warnings(warnings_of_update(endpoint, &old, &new, &warnings))
            })?;
        }
        // As in Kubernetes, an update without a change writes an object whose stored form is outdated.
        if unchanged::is_unchanged(&old, &new) && !endpoint.has_outdated_form(&current) {
            let mut warnings = warnings_of_update(endpoint, &old, &new, &warnings);
            warnings.extend(admission.take_warnings());
            return Ok(WriteResult { object: current, created: false, warnings });
        }
        let mut warnings = warnings_of_update(endpoint, &old, &new, &warnings);
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

/// Returns the warnings about a valid update, after those about its decoding.
fn warnings_of_update(endpoint: &Endpoint, old: &Value, new: &Value, decoding: &[String]) -> Vec<String> {
    let mut warnings = decoding.to_vec();
    warnings.extend(kind_warnings::on_write(endpoint, new));
    warnings.extend(kind_warnings::on_changed_pods(endpoint, old, new));
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
            let plugins = built_in::OfUpdate { endpoint, target, name: write.name, old };
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

fn check_preconditions(
    endpoint: &Endpoint,
    name: &str,
    target: UpdateTarget,
    old: &Value,
    new: &Value,
) -> Result<(), Status> {
    let about = endpoint.resource_ref();
    let (before, after) = (meta::text(old, "resourceVersion"), meta::text(new, "resourceVersion"));
    // As in Kubernetes, version 0 is no condition.
    if matches!(after, "" | "0") {
        let conditional = endpoint.resource.strategy.conditional_update || endpoint.resource.custom.is_some();
        if conditional && target != UpdateTarget::Scale {
            let detail = "must be specified for an update";
            let cause = field::invalid("metadata.resourceVersion", &json!(0), detail);
            // kube-apiserver has the resource in the place of the kind here.
            let about = ResourceRef { kind: about.plural, ..about };
            return Err(Status::invalid(about, name, vec![cause]));
        }
    } else if after.parse::<u64>().is_err() {
        let shown = go::quoted(after);
        return Err(Status::unclassified(format!("strconv.ParseUint: parsing {shown}: invalid syntax")));
    } else if before != after {
        return Err(Status::modified(about, name));
    }
    let (before, after) = (meta::text(old, "uid"), meta::text(new, "uid"));
    if !after.is_empty() && before != after {
        let problem = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: {after}, UID in object meta: {before}",
            storage_key(endpoint, meta::text(old, "namespace"), name)
        );
        return Err(Status::conflict(about, name, &problem));
    }
    Ok(())
}

/// Returns the key under which kube-apiserver stores an object in etcd.
fn storage_key(endpoint: &Endpoint, namespace: &str, name: &str) -> String {
    let plural = &endpoint.resource.names.plural;
    let prefix = match (&*endpoint.group, plural.as_str()) {
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (group @ ("apiextensions.k8s.io" | "apiregistration.k8s.io"), plural) => format!("{group}/{plural}"),
        (group, plural) if endpoint.resource.custom.is_some() => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    };
    let parts = [prefix.as_str(), namespace, name];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.fold("/registry".to_owned(), |key, part| key + "/" + part)
}

/// Completes the new state, whose unknown fields and defaults were handled before. Returns what is invalid beyond its schema.
pub(super) fn prepare(
    state: &State,
    endpoint: &Endpoint,
    target: UpdateTarget,
    old: &Value,
    new: &mut Value,
) -> Vec<Cause> {
    if target == UpdateTarget::Status && endpoint.is_core("pods") {
        // As in Kubernetes, a Pod's status cannot mark it as being deleted.
        meta::metadata_mut(new).remove("deletionTimestamp");
    }
    let mut causes = check_added_finalizers(old, new);
    causes.extend(changed_metadata(old, new));
    // kube-apiserver validates the metadata of every update twice, and lists each cause twice.
    causes.extend(causes.clone());
    meta::keep_server_fields(old, new);
    keep_fields_outside_target(endpoint, target, old, new);
    if !matches!(target, UpdateTarget::Finalize | UpdateTarget::Scale) {
        causes.extend(strategy::prepare_update(state, endpoint, target, old, new));
    }
    if !matches!(target, UpdateTarget::Status | UpdateTarget::Approval | UpdateTarget::Binding)
        && increments_generation(endpoint, old, new)
    {
        meta::metadata_mut(new).insert("generation".into(), json!(meta::generation(old) + 1));
    }
    causes
}

/// Restores the fields of the old state that an update of this target does not change.
fn keep_fields_outside_target(endpoint: &Endpoint, target: UpdateTarget, old: &Value, new: &mut Value) {
    match target {
        UpdateTarget::Object | UpdateTarget::Scale => {
            if endpoint.has_status {
                copy_field(old, new, "status");
            }
        }
        UpdateTarget::Binding => {}
        UpdateTarget::EphemeralContainers | UpdateTarget::Resize => {
            let managed = new["metadata"]["managedFields"].take();
            let mut merged = old.clone();
            match target {
                UpdateTarget::Resize => pods::copy_resources(new, &mut merged),
                _ => pods::copy_ephemeral_containers(new, &mut merged),
            }
            if !managed.is_null() {
                meta::metadata_mut(&mut merged).insert("managedFields".into(), managed);
            }
            *new = merged;
        }
        // As in Kubernetes, the metadata of a Namespace may change with its finalizers.
        UpdateTarget::Finalize => copy_field(old, new, "status"),
        UpdateTarget::Status | UpdateTarget::Approval => {
            let managed = new["metadata"]["managedFields"].take();
            let mut merged = old.clone();
            merged["metadata"] = strategy::metadata_of_status_update(endpoint, old, new);
            copy_field(new, &mut merged, "status");
            if !managed.is_null() {
                meta::metadata_mut(&mut merged).insert("managedFields".into(), managed);
            }
            *new = merged;
        }
    }
}

/// Copies a top-level field, or removes it if `from` does not have it.
fn copy_field(from: &Value, to: &mut Value, field: &str) {
    let Some(target) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => drop(target.insert(field.into(), value.clone())),
        None => drop(target.remove(field)),
    }
}

/// Whether a change increments `metadata.generation`.
fn increments_generation(endpoint: &Endpoint, old: &Value, new: &Value) -> bool {
    let custom = endpoint.resource.custom.is_some();
    if !custom && !endpoint.resource.strategy.tracks_generation {
        return false;
    }
    let ignored = |name: &str| name == "metadata" || (name == "status" && (endpoint.has_status || !custom));
    let differs = |a: &Value, b: &Value| {
        a.as_object().into_iter().flatten().any(|(name, value)| !ignored(name) && b.get(name) != Some(value))
    };
    differs(old, new) || differs(new, old) || metadata_increments_generation(endpoint, old, new)
}

/// Whether a change of the metadata increments the generation: that of a Deployment's annotations, which it passes on to its `ReplicaSets`, and that
/// of an `EndpointSlice`'s labels.
fn metadata_increments_generation(endpoint: &Endpoint, old: &Value, new: &Value) -> bool {
    let field = match (endpoint.resource.group.as_str(), endpoint.resource.names.plural.as_str()) {
        ("apps", "deployments") => "annotations",
        ("discovery.k8s.io", "endpointslices") => "labels",
        _ => return false,
    };
    let entries =
        |object: &Value| object["metadata"][field].as_object().filter(|map| !map.is_empty()).cloned();
    entries(old) != entries(new)
}

/// Rejects an update that makes an object one that is being deleted. Other metadata that a client cannot change is ignored.
fn changed_metadata(old: &Value, new: &Value) -> Vec<Cause> {
    let changed = |field: &&str| old["metadata"][*field].is_null() && !new["metadata"][*field].is_null();
    let fields = ["deletionTimestamp", "deletionGracePeriodSeconds"].into_iter().filter(changed);
    fields
        .map(|name| {
            let path = field::child("metadata", name);
            field::invalid(&path, &new["metadata"][name], "field is immutable")
        })
        .collect()
}

/// Rejects new finalizers on an object that is being deleted.
fn check_added_finalizers(old: &Value, new: &Value) -> Vec<Cause> {
    if old["metadata"].get("deletionTimestamp").is_none() {
        return Vec::new();
    }
    let before: HashSet<String> = meta::finalizers(old).into_iter().collect();
    let added: Vec<String> =
        meta::finalizers(new).into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.iter().map(|finalizer| format!("{finalizer:?}")).collect::<Vec<_>>().join(", ")
    );
    vec![field::forbidden("metadata.finalizers", &detail)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_can_be_removed_but_not_added_during_deletion() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b", "c/d"]}});
        assert!(check_added_finalizers(&old, &json!({"metadata": {"finalizers": ["c/d"]}})).is_empty());
        assert_eq!(check_added_finalizers(&old, &json!({"metadata": {"finalizers": ["e/f"]}})).len(), 1);
    }
}
