//! What a controller decides to do, and its execution.

use std::time::Duration;

use serde_json::{Value, json};

use super::autoscaler::Rescale;
use super::cluster::Cluster;
use super::kind::Kind;
use super::object::{Condition, Key, key, set_condition, template_hash};
use crate::meta;
use crate::patch::merge_patch;
use crate::request::options::WriteOptions;
use crate::rest::built_in_admission::topology_labels;
use crate::rest::subresources::scale;
use crate::rest::verbs::create::create;
use crate::rest::verbs::delete::{DeleteOptions, Propagation, delete};
use crate::rest::verbs::update::{ProposedUpdate, UpdateTarget, update};
use crate::status::Status;

/// What a controller does for one object.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    /// When to look at the object again without a change; `None` for not at all.
    pub(super) retry_after: Option<Duration>,
}

impl Plan {
    /// Looks at the object again after `delay`, or earlier if that was planned before.
    pub(super) fn retry_after(&mut self, delay: Duration) {
        self.retry_after = Some(self.retry_after.map_or(delay, |known| known.min(delay)));
    }
}

/// An object that has the subresource `scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScaleTarget {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) key: Key,
}

/// One write.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Creates an object in the namespace of its metadata.
    Create(Kind, Value),
    /// Creates an object as [`Self::Create`] does. If that fails, the rest of the plan is left out and tried again.
    CreateOrStop(Kind, Value),
    /// Merges a patch into another object, or into the reconciled one. Not for its status.
    Patch(Kind, Key, Value),
    /// Replaces the status of the reconciled object, if it was not changed since it was read.
    SetStatus(Value),
    /// Replaces the status of the reconciled CertificateSigningRequest as [`Self::SetStatus`] does, by its subresource `approval`.
    SetApproval(Value),
    /// Sets the replicas of an object by its subresource `scale`, and reports the result in the status of the reconciled autoscaler.
    Scale(Box<Rescale>),
    /// Deletes the object with this UID.
    Delete { kind: Kind, key: Key, uid: String, foreground: bool },
    /// Assigns the reconciled Pod to a Node, as the subresource `binding` does.
    Bind { node: String },
    /// Ends a Pod that is being deleted, as its kubelet does when the containers have stopped.
    Remove,
    /// Records an Event about the reconciled object.
    Event { warning: bool, reason: &'static str, message: String },
}

impl Action {
    /// Deletes an object that was read.
    pub(super) fn delete(kind: Kind, object: &Value) -> Self {
        let uid = meta::text(object, "uid").to_owned();
        Self::Delete { kind, key: key(object), uid, foreground: false }
    }
}

/// Executes the actions of a plan for an object, in order, until one fails. After a creation that fails, only further
/// creations are left out, so that the status is still written.
pub(super) fn execute(
    cluster: &Cluster<'_>,
    manager: &str,
    (kind, object): (Kind, &Value),
    actions: Vec<Action>,
) -> Result<(), Status> {
    let executor = Executor { cluster, options: WriteOptions::internal(manager), kind, object };
    let mut created = Ok(());
    for action in actions {
        let is_creation = matches!(action, Action::Create(..));
        if is_creation && created.is_err() {
            continue;
        }
        let result = executor.execute(action);
        if is_creation {
            created = result;
        } else {
            result?;
        }
    }
    created
}

struct Executor<'a> {
    cluster: &'a Cluster<'a>,
    options: WriteOptions,
    kind: Kind,
    object: &'a Value,
}

impl Executor<'_> {
    fn execute(&self, action: Action) -> Result<(), Status> {
        match action {
            Action::Create(kind, value) | Action::CreateOrStop(kind, value) => self.create(kind, value),
            Action::Patch(kind, key, patch) => ignore_missing(self.patch(kind, &key, &patch)),
            Action::Scale(rescale) => self.rescale(*rescale),
            Action::SetStatus(status) => ignore_missing(self.set_status(UpdateTarget::Status, &status)),
            Action::SetApproval(status) => ignore_missing(self.set_status(UpdateTarget::Approval, &status)),
            Action::Delete { kind, key, uid, foreground } => {
                let propagation = if foreground { Propagation::Foreground } else { Propagation::Background };
                ignore_missing(self.delete(kind, &key, &DeleteOptions::for_uid(&uid, propagation)))
            }
            Action::Bind { node } => self.bind(&node),
            Action::Remove => {
                let uid = meta::text(self.object, "uid").to_owned();
                let options =
                    DeleteOptions { grace_period: Some(0), uid: Some(uid), ..DeleteOptions::default() };
                ignore_missing(self.delete(self.kind, &key(self.object), &options))
            }
            Action::Event { warning, reason, message } => {
                self.record_event(warning, reason, &message);
                Ok(())
            }
        }
    }

    fn create(&self, kind: Kind, value: Value) -> Result<(), Status> {
        let Some(endpoint) = self.cluster.endpoint(kind) else { return Ok(()) };
        let namespace = meta::text(&value, "namespace").to_owned();
        let namespace = endpoint.resource.namespaced.then_some(namespace.as_str());
        match create(self.cluster.state, endpoint, namespace, value, &self.options) {
            Ok(_) => Ok(()),
            // The namespace is terminating or gone: its deletion removes the owner, too.
            Err(error) if error.code == 404 || is_namespace_terminating(&error) => Ok(()),
            Err(error) => {
                let message = format!("Error creating: {}", error.message);
                self.record_event(true, "FailedCreate", &message);
                Err(error)
            }
        }
    }

    fn patch(&self, kind: Kind, (namespace, name): &Key, patch: &Value) -> Result<(), Status> {
        let Some(endpoint) = self.cluster.endpoint(kind) else { return Ok(()) };
        // As in Kubernetes, the controller writes the annotations of a Deployment with its status, so that its generation stays.
        let is_metadata =
            patch.as_object().is_some_and(|members| members.keys().all(|name| name == "metadata"));
        let target =
            if kind == Kind::Deployment && is_metadata { UpdateTarget::Status } else { UpdateTarget::Object };
        update(self.cluster.state, endpoint, (namespace, name), target, &self.options, |old| {
            Ok(ProposedUpdate { value: merge_patch(old, patch), applied: false, retry: true })
        })
        .map(drop)
    }

    fn scale(&self, target: &ScaleTarget, replicas: i64) -> Result<(), Status> {
        let Some(endpoint) = self.cluster.scalable_endpoint(&target.group, &target.kind) else {
            return Ok(());
        };
        let Some(paths) = &endpoint.scale else { return Ok(()) };
        let (namespace, name) = &target.key;
        let scaled = json!({"spec": {"replicas": replicas}});
        update(self.cluster.state, &endpoint, (namespace, name), UpdateTarget::Scale, &self.options, |old| {
            let value = scale::set_replicas(&endpoint, paths, old, &scaled)?;
            Ok(ProposedUpdate { value, applied: false, retry: true })
        })
        .map(drop)
    }

    /// Scales a target and reports the result. A failure is also returned, so that it is tried again.
    fn rescale(&self, rescale: Rescale) -> Result<(), Status> {
        let result = ignore_missing(self.scale(&rescale.target, rescale.replicas));
        let message = result.as_ref().copied().map_err(|status| status.message.as_str());
        for action in rescale.report(message, &self.cluster.now_text()) {
            self.execute(action)?;
        }
        result
    }

    fn set_status(&self, target: UpdateTarget, status: &Value) -> Result<(), Status> {
        let Some(endpoint) = self.cluster.endpoint(self.kind) else { return Ok(()) };
        let (namespace, name) = key(self.object);
        let version = meta::text(self.object, "resourceVersion");
        update(self.cluster.state, endpoint, (&namespace, &name), target, &self.options, |old| {
            if meta::text(old, "resourceVersion") != version {
                return Err(Status::modified(endpoint.resource_ref(), &name));
            }
            let mut value = old.clone();
            value["status"] = status.clone();
            Ok(ProposedUpdate { value, applied: false, retry: false })
        })
        .map(drop)
    }

    fn delete(&self, kind: Kind, (namespace, name): &Key, options: &DeleteOptions) -> Result<(), Status> {
        let Some(endpoint) = self.cluster.endpoint(kind) else { return Ok(()) };
        delete(self.cluster.state, endpoint, (namespace, name), options).map(drop)
    }

    /// Sets `spec.nodeName` and the condition `PodScheduled`. No field manager owns them, as in Kubernetes.
    fn bind(&self, node: &str) -> Result<(), Status> {
        let Some(endpoint) = self.cluster.endpoint(self.kind) else { return Ok(()) };
        let (namespace, name) = key(self.object);
        let table = &endpoint.resource.table;
        let Some(current) = table.get(&namespace, &name) else { return Ok(()) };
        let mut value = current.value();
        if value["spec"]["nodeName"].is_string() {
            return Ok(());
        }
        value["spec"]["nodeName"] = node.into();
        topology_labels::copy(self.cluster.state, node, &mut value);
        let scheduled = Condition { kind: "PodScheduled", status: true, reason: "", message: "" };
        set_condition(&mut value["status"], scheduled, &self.cluster.now_text());
        let written = table.update(&current, endpoint.resource.draft(value));
        written.map(drop).map_err(|_| Status::modified(endpoint.resource_ref(), &name))
    }

    /// Records an Event. An Event with the same reason and message is counted up instead, so that the number of Events
    /// is bounded by what happened to the object.
    fn record_event(&self, warning: bool, reason: &str, message: &str) {
        let Some(endpoint) = self.cluster.endpoint(Kind::Event) else { return };
        let (namespace, name) = key(self.object);
        let namespace = if namespace.is_empty() { "default".into() } else { namespace };
        let uid = meta::text(self.object, "uid");
        let hash = template_hash(&json!([uid, reason, message]), 0);
        let event_name = format!("{name}.{hash}");
        let now = self.cluster.now_text();
        let counted = update(
            self.cluster.state,
            endpoint,
            (&namespace, &event_name),
            UpdateTarget::Object,
            &self.options,
            |old| {
                let mut value = old.clone();
                value["count"] = (old["count"].as_i64().unwrap_or(1) + 1).into();
                value["lastTimestamp"] = now.as_str().into();
                Ok(ProposedUpdate { value, applied: false, retry: true })
            },
        );
        if counted.is_ok() {
            return;
        }
        let kind = if warning { "Warning" } else { "Normal" };
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": event_name, "namespace": &*namespace},
            "involvedObject": {
                "apiVersion": self.kind.api_version(), "kind": self.kind.name(), "namespace": meta::text(self.object, "namespace"),
                "name": &*name, "uid": uid, "resourceVersion": meta::text(self.object, "resourceVersion"),
            },
            "reason": reason, "message": message, "type": kind, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": self.options.manager}, "reportingComponent": self.options.manager,
            "reportingInstance": "",
        });
        if let Err(error) = create(self.cluster.state, endpoint, Some(&namespace), event, &self.options) {
            tracing::debug!(%error, reason, "cannot record an event of a controller");
        }
    }
}

fn is_namespace_terminating(error: &Status) -> bool {
    let mut causes = error.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// Treats an object that is gone as handled.
fn ignore_missing(result: Result<(), Status>) -> Result<(), Status> {
    result.or_else(|status| if status.code == 404 { Ok(()) } else { Err(status) })
}
