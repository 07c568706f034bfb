//! Deletes objects.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::admission::{Admission, NoBuiltIn, Objects, Operation, WriteRequest};
use crate::clock;
use crate::meta;
use crate::registry::Endpoint;
use crate::request::Query;
use crate::request::body;
use crate::request::options::{check_dry_run, invalid_options};
use crate::rest::kinds::{crd_sync, strategy};
use crate::rest::write_steps::internal::{ControllerAdmission, complete};
use crate::schema::field;
use crate::state::State;
use crate::status::{ResourceRef, Status};
use crate::storage::{ObjectDraft, StoredObject, WriteError};

/// The finalizer of an object whose dependents are deleted before it.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are orphaned.
pub(crate) const ORPHAN: &str = "orphan";

/// The controllers that delete objects, as webhooks see them.
const CONTROLLERS: &str = "kube-controller-manager";

/// What happens to an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `meta/v1 DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub dry_run: bool,
    pub propagation: Option<Propagation>,
    pub grace_period: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    /// Whether the request deletes a collection. As in Kubernetes, admission sees no name then.
    pub of_collection: bool,
    /// How long a Pod without a grace period stays marked before it is removed; zero for controllers, which do not wait.
    pub pause: Duration,
}

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum DeleteResult {
    /// The object was removed; this was its last state.
    Deleted(Arc<StoredObject>),
    /// The object is removed when its finalizers are removed and its grace period is over.
    Pending(Arc<StoredObject>),
}

impl DeleteOptions {
    /// Reads the options from the body and, where the body has no value, from the query.
    pub(crate) fn parse(query: &Query, body: Option<&Value>) -> Result<Self, Status> {
        let nothing = Value::Null;
        let body = body.unwrap_or(&nothing);
        check_options_type(body)?;
        let bad = |what: &str, value: &Value| {
            Status::bad_request(format!("DeleteOptions: {what}: {value} is not valid"))
        };
        let in_body: Vec<&str> =
            body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let dry_run = check_dry_run(&in_body, "DeleteOptions")? || query.dry_run("DeleteOptions")?;
        let policy = body["propagationPolicy"].as_str().or_else(|| query.get("propagationPolicy"));
        let orphan = body["orphanDependents"].as_bool().or(query.optional_flag("orphanDependents")?);
        if let (Some(policy), Some(_)) = (policy, orphan) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let cause = field::invalid("propagationPolicy", &policy.into(), detail);
            return Err(invalid_options("DeleteOptions", cause));
        }
        let propagation = match (policy, orphan) {
            (Some("Background"), _) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
            (Some(other), _) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                let cause = field::not_supported("propagationPolicy", &other.into(), &known);
                return Err(invalid_options("DeleteOptions", cause));
            }
        };
        let grace_period = match &body["gracePeriodSeconds"] {
            Value::Null => {
                query.number("gracePeriodSeconds")?.and_then(|seconds| i64::try_from(seconds).ok())
            }
            seconds => Some(seconds.as_i64().ok_or_else(|| bad("gracePeriodSeconds", seconds))?),
        };
        let precondition = |name: &str| body["preconditions"][name].as_str().map(str::to_owned);
        Ok(Self {
            dry_run,
            propagation,
            grace_period,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            of_collection: false,
            pause: Duration::ZERO,
        })
    }

    /// Returns the options to delete the object with this UID, for controllers.
    pub(crate) fn for_uid(uid: &str, propagation: Propagation) -> Self {
        Self { uid: Some(uid.to_owned()), propagation: Some(propagation), ..Self::default() }
    }
}

/// Errors unless the body of a deletion is an object of the kind `DeleteOptions`, which it need not name.
fn check_options_type(body: &Value) -> Result<(), Status> {
    if !body.is_null() && !body.is_object() {
        return Err(Status::bad_request(body::untyped(body)));
    }
    match body["kind"].as_str() {
        None | Some("" | "DeleteOptions") => Ok(()),
        Some(kind) => Err(Status::bad_request(body::unregistered(
            kind,
            body["apiVersion"].as_str().unwrap_or_default(),
        ))),
    }
}

/// Deletes an object, or marks it for deletion if it has finalizers or a grace period. For controllers.
pub(crate) fn delete(
    state: &State,
    endpoint: &Endpoint,
    key: (&str, &str),
    options: &DeleteOptions,
) -> Result<DeleteResult, Status> {
    let controller = ControllerAdmission::begin(state, endpoint, CONTROLLERS);
    controller.complete(delete_admitted(state, endpoint, key, options, controller.admission()))
}

/// Deletes an object as [`delete`] does, without admission.
pub(crate) fn delete_unchecked(
    state: &State,
    endpoint: &Endpoint,
    key: (&str, &str),
    options: &DeleteOptions,
) -> Result<DeleteResult, Status> {
    complete(delete_admitted(state, endpoint, key, options, &Admission::bypassed()))
}

/// Deletes an object as [`delete`] does, unless admission refuses it.
pub(crate) async fn delete_admitted(
    state: &State,
    endpoint: &Endpoint,
    (namespace, name): (&str, &str),
    options: &DeleteOptions,
    admission: &Admission<'_>,
) -> Result<DeleteResult, Status> {
    strategy::check_deletable(endpoint, name)?;
    let table = &endpoint.resource.table;
    loop {
        let current =
            table.get(namespace, name).ok_or_else(|| Status::not_found(endpoint.resource_ref(), name))?;
        check_preconditions(endpoint, &current, options)?;
        if admission.is_active() {
            admit(endpoint, &current, options, admission).await?;
        }
        let old = current.value();
        let mut new = old.clone();
        mark_for_deletion(state, endpoint, &mut new, options);
        let is_pending = !meta::finalizers(&new).is_empty()
            || grace_period(&new) > 0
            || (strategy::is_namespace(endpoint)
                && new["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()));
        if is_pending && new == old {
            return Ok(DeleteResult::Pending(current));
        }
        // As in Kubernetes, the last state of a Pod says that it is being deleted, that of another object that is removed at once does not, and
        // keeps the finalizers that the deletion removes.
        let is_pod = endpoint.is_core("pods");
        let is_marked = meta::text(&old, "deletionTimestamp").is_empty() && is_pod;
        let last = if is_pending || is_pod { new } else { old };
        let draft = ObjectDraft { schema: current.schema, ..endpoint.resource.draft(last) };
        if options.dry_run {
            if !is_pending && !meta::finalizers(&draft.value).is_empty() {
                return Ok(DeleteResult::Pending(empty_object(endpoint)));
            }
            let result = Arc::new(StoredObject::unwritten(draft));
            return Ok(if is_pending {
                DeleteResult::Pending(result)
            } else {
                DeleteResult::Deleted(result)
            });
        }
        // A concurrent write is not a conflict: the deletion is evaluated again for the new state.
        let result = if is_pending {
            table.update(&current, draft)
        } else if is_marked {
            match table.update(&current, draft) {
                Ok(marked) => remove_marked(endpoint, marked, options.pause).await,
                Err(error) => Err(error),
            }
        } else {
            table.delete(&current, draft)
        };
        let object = match result {
            Ok(object) => object,
            Err(WriteError::TooLarge(bytes)) => return Err(Status::too_large_for_storage(Some(bytes))),
            Err(_) => continue,
        };
        crd_sync::after_write(state, endpoint, name, false);
        if is_pending {
            return Ok(DeleteResult::Pending(object));
        }
        crd_sync::after_delete(state, endpoint);
        return Ok(DeleteResult::Deleted(object));
    }
}

/// Removes a Pod that was marked for deletion and has no grace period. Watches see that it is being deleted before it is gone.
///
/// # Errors
/// Errors if the Pod was changed in the meantime.
async fn remove_marked(
    endpoint: &Endpoint,
    marked: Arc<StoredObject>,
    pause: Duration,
) -> Result<Arc<StoredObject>, WriteError> {
    if !pause.is_zero() {
        // kube-apiserver writes to etcd twice. Controllers rely on the time in between to find the marked Pod in their caches.
        tokio::time::sleep(pause).await;
    }
    let table = &endpoint.resource.table;
    let last = ObjectDraft { schema: marked.schema, ..endpoint.resource.draft(marked.value()) };
    match table.delete(&marked, last) {
        // As in Kubernetes, it does not matter who removes it.
        Err(_) if table.get(&marked.namespace, &marked.name).is_none_or(|other| other.uid != marked.uid) => {
            Ok(marked)
        }
        result => result,
    }
}

/// Returns the object with which Kubernetes answers to a dry run of a deletion that would remove the last finalizers first: an empty one
/// (`updateForGracefulDeletionAndFinalizers` of `k8s.io/apiserver/pkg/registry/generic/registry/store.go`).
fn empty_object(endpoint: &Endpoint) -> Arc<StoredObject> {
    let value = if endpoint.resource.custom.is_some() { json!({}) } else { json!({"metadata": {}}) };
    Arc::new(StoredObject::unwritten(endpoint.resource.draft(value)))
}

/// Asks admission whether an object may be deleted. Mutating webhooks are asked, too, but have nothing to change.
async fn admit(
    endpoint: &Endpoint,
    current: &Arc<StoredObject>,
    options: &DeleteOptions,
    admission: &Admission<'_>,
) -> Result<(), Status> {
    let write = WriteRequest {
        operation: Operation::Delete,
        endpoint,
        subresource: "",
        namespace: &current.namespace,
        name: if options.of_collection { "" } else { &current.name },
        dry_run: options.dry_run,
    };
    let present = endpoint.present(Arc::clone(current)).await?;
    let old = endpoint.served_value(&present);
    admission.mutate(&write, &mut None, Some(&old), &NoBuiltIn).await?;
    admission.validate(&write, Objects { new: None, old: Some(&old) }).await
}

pub(in crate::rest) fn check_preconditions(
    endpoint: &Endpoint,
    current: &StoredObject,
    options: &DeleteOptions,
) -> Result<(), Status> {
    // kube-apiserver has the kind in the place of the resource here.
    let about = endpoint.resource_ref();
    let about = ResourceRef { plural: about.kind, ..about };
    let conflict = |problem: String| Err(Status::conflict(about, &current.name, &problem));
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != &*current.uid) {
        let found = &current.uid;
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
        ));
    }
    let found = current.revision.to_string();
    if let Some(expected) = options.resource_version.as_deref().filter(|expected| *expected != found) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({expected}) does not match the ResourceVersion in record ({found}). The object might have been modified"
        ));
    }
    Ok(())
}

fn grace_period(value: &Value) -> i64 {
    value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0)
}

/// Sets the fields of an object that is being deleted: finalizers by propagation, deletion timestamp, grace period.
fn mark_for_deletion(state: &State, endpoint: &Endpoint, value: &mut Value, options: &DeleteOptions) {
    let finalizers = finalizers_for(endpoint, value, options.propagation);
    meta::set_finalizers(value, finalizers);
    let grace_seconds = strategy::grace_period(endpoint, value, options.grace_period);
    let deleting = value["metadata"]["deletionTimestamp"].is_string();
    if deleting && grace_seconds >= grace_period(value) {
        return;
    }
    let generation = meta::generation(value);
    let due = state
        .clock
        .now()
        .checked_add(SignedDuration::from_secs(grace_seconds))
        .unwrap_or(jiff::Timestamp::MAX);
    let metadata = meta::metadata_mut(value);
    metadata.insert("deletionTimestamp".into(), clock::rfc3339_seconds(due).into());
    if !strategy::is_namespace(endpoint) {
        metadata.insert("deletionGracePeriodSeconds".into(), json!(grace_seconds));
    }
    if generation > 0 && !deleting {
        metadata.insert("generation".into(), json!(generation + 1));
    }
    strategy::mark_deleting(state, endpoint, value);
}

/// Returns the finalizers with those of the propagation policy added or removed.
fn finalizers_for(endpoint: &Endpoint, value: &Value, propagation: Option<Propagation>) -> Vec<String> {
    let mut finalizers = meta::finalizers(value);
    // As in Kubernetes, the garbage collector has nothing to do with Events.
    if endpoint.is_core("events") || endpoint.group == "events.k8s.io" {
        return finalizers;
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    // Without a policy, the policy of an earlier request applies.
    let policy = propagation.unwrap_or(match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => Propagation::Orphan,
        (_, true) => Propagation::Foreground,
        _ if endpoint.resource.strategy.orphans_by_default => Propagation::Orphan,
        _ => Propagation::Background,
    });
    finalizers.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
    match policy {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    finalizers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_the_body_override_the_query() {
        let query = Query::parse("propagationPolicy=Orphan&gracePeriodSeconds=5").expect("a query");
        let options = DeleteOptions::parse(&query, None).expect("options");
        assert_eq!((options.propagation, options.grace_period), (Some(Propagation::Orphan), Some(5)));
        let body = json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}});
        let options = DeleteOptions::parse(&query, Some(&body)).expect("options");
        assert_eq!((options.propagation, options.uid.as_deref()), (Some(Propagation::Foreground), Some("u")));
        assert!(DeleteOptions::parse(&Query::default(), Some(&json!({"propagationPolicy": "x"}))).is_err());
    }
}
