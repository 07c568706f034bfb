//! The namespace controller, after `k8s.io/kubernetes/pkg/controller/namespace`.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::queue::Queue;
use super::remaining_content::RemainingContent;
use super::{Change, Controller, MANAGER, Observation};
use crate::meta;
use crate::request::options::WriteOptions;
use crate::rest::kinds::strategy;
use crate::rest::verbs::delete::{DeleteOptions, Propagation, delete};
use crate::rest::verbs::update::{self, UpdateTarget};
use crate::state::State;
use crate::status::Status;

/// The maximum number of namespaces processed before other controllers get their turn.
const BATCH_SIZE: usize = 32;

/// The maximum number of objects of one namespace that are deleted before other controllers get their turn.
const MAX_DELETIONS: usize = 256;

/// The interval between attempts to delete an object whose deletion failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Deletes the content of namespaces that are being deleted, and finalizes namespaces without content.
#[derive(Default)]
pub(super) struct Namespaces {
    terminating: BTreeSet<Box<str>>,
    queue: Queue<Box<str>>,
}

impl Controller for Namespaces {
    fn observe(&mut self, observation: &Observation<'_>) {
        let object = observation.object();
        if !strategy::is_namespace(observation.endpoint) {
            // What remains in a terminating namespace has changed.
            if self.terminating.contains(&object.namespace) {
                self.queue.add(object.namespace.clone(), observation.due);
            }
            return;
        }
        match observation.change {
            Change::Applied(namespace) if namespace.deleting => {
                self.terminating.insert(namespace.name.clone());
                self.queue.add(namespace.name.clone(), observation.due);
            }
            Change::Applied(namespace) | Change::Deleted(namespace) => {
                self.terminating.remove(&namespace.name);
                self.queue.remove(&namespace.name);
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    fn run(&mut self, state: &State, now: Instant) {
        for namespace in self.queue.take_due(now, BATCH_SIZE) {
            let Some(remaining) = delete_content(state, &namespace) else {
                self.queue.add(namespace, now);
                continue;
            };
            if remaining.is_empty() {
                if let Err(error) = finalize(state, &namespace) {
                    tracing::debug!(%error, %namespace, "cannot finalize a terminating namespace");
                    self.queue.add(namespace, now + RETRY_INTERVAL);
                }
            } else {
                update_status(state, &namespace, &remaining);
                if !remaining.failures.is_empty() {
                    self.queue.add(namespace, now + RETRY_INTERVAL);
                }
            }
        }
    }
}

/// Deletes the objects in a namespace and returns what remains, or `None` if there is more to delete than one step allows.
fn delete_content(state: &State, namespace: &str) -> Option<RemainingContent> {
    let mut remaining = RemainingContent::default();
    let mut deletions = 0;
    for endpoint in state.registry().preferred_endpoints() {
        let resource = &endpoint.resource;
        if !resource.namespaced || resource.table.count(Some(namespace)) == 0 {
            continue;
        }
        for object in resource.table.list(Some(namespace)).0 {
            if object.deleting {
                continue;
            }
            let options = DeleteOptions::for_uid(&object.uid, Propagation::Background);
            match delete(state, &endpoint, (namespace, &object.name), &options) {
                Ok(_) => deletions += 1,
                // Deleted concurrently.
                Err(status) if status.code == 404 => {}
                Err(status) => remaining.failures.push(status.message),
            }
            if deletions == MAX_DELETIONS {
                return None;
            }
            if remaining.failures.len() == MAX_DELETIONS {
                // Retried later, because the reason is probably the same for all.
                break;
            }
        }
        let name = format!("{}.{}", resource.names.plural, resource.group);
        remaining.add(name, &resource.table.list(Some(namespace)).0);
    }
    Some(remaining)
}

/// Writes what remains into the namespace's status conditions.
fn update_status(state: &State, namespace: &str, remaining: &RemainingContent) {
    let registry = state.registry();
    let Some(namespaces) = registry.endpoint("", "v1", "namespaces") else { return };
    let now = state.now();
    let options = WriteOptions::internal(MANAGER);
    let result = update::update(state, namespaces, ("", namespace), UpdateTarget::Status, &options, |old| {
        let mut value = old.clone();
        remaining.set_conditions(&mut value["status"], &now);
        meta::metadata_mut(&mut value).remove("resourceVersion");
        Ok(update::ProposedUpdate { value, applied: false, retry: true })
    });
    if let Err(error) = result {
        tracing::debug!(%error, namespace, "cannot update a terminating namespace");
    }
}

/// Removes the finalizer `kubernetes` from an empty namespace, which removes the namespace unless it has other
/// finalizers.
fn finalize(state: &State, namespace: &str) -> Result<(), Status> {
    let registry = state.registry();
    let Some(namespaces) = registry.endpoint("", "v1", "namespaces") else { return Ok(()) };
    let options = WriteOptions::internal(MANAGER);
    let result =
        update::update(state, namespaces, ("", namespace), UpdateTarget::Finalize, &options, |old| {
            let mut value = old.clone();
            if let Some(finalizers) = value["spec"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != "kubernetes");
            }
            if value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
                && let Some(spec) = value["spec"].as_object_mut()
            {
                spec.remove("finalizers");
            }
            meta::metadata_mut(&mut value).remove("resourceVersion");
            Ok(update::ProposedUpdate { value, applied: false, retry: true })
        });
    match result {
        // The namespace is gone already.
        Err(status) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}
