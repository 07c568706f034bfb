//! The namespace controller, after `k8s.io/kubernetes/pkg/controller/namespace`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::remaining_content::RemainingContent;
use super::{Change, Controller, MANAGER};
use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::delete::{DeleteOptions, Propagation, delete};
use crate::rest::strategy;
use crate::rest::update::{self, UpdateTarget};
use crate::state::State;

/// Deletes the content of namespaces that are being deleted, and finalizes namespaces without content.
#[derive(Default)]
pub(super) struct Namespaces {
    terminating: BTreeSet<Box<str>>,
}

impl Controller for Namespaces {
    fn observe(&mut self, endpoint: &Arc<Endpoint>, change: Change<'_>) {
        if !strategy::is_namespace(endpoint) {
            return;
        }
        match change {
            Change::Applied(namespace) if namespace.deleting => {
                self.terminating.insert(namespace.name.clone())
            }
            Change::Applied(namespace) | Change::Deleted(namespace) => {
                self.terminating.remove(&namespace.name)
            }
        };
    }

    fn reconcile(&mut self, state: &State) {
        for namespace in &self.terminating {
            let remaining = delete_content(state, namespace);
            if remaining.is_empty() {
                finalize(state, namespace);
            } else {
                update_status(state, namespace, &remaining);
            }
        }
    }
}

/// Deletes the objects in a namespace and returns what remains.
fn delete_content(state: &State, namespace: &str) -> RemainingContent {
    let mut remaining = RemainingContent::default();
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
                Ok(_) => {}
                // Deleted concurrently.
                Err(status) if status.code == 404 => {}
                Err(status) => remaining.failures.push(status.message),
            }
        }
        let name = format!("{}.{}", resource.names.plural, resource.group);
        remaining.add(name, &resource.table.list(Some(namespace)).0);
    }
    remaining
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
fn finalize(state: &State, namespace: &str) {
    let registry = state.registry();
    let Some(namespaces) = registry.endpoint("", "v1", "namespaces") else { return };
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
    if let Err(error) = result {
        tracing::debug!(%error, namespace, "cannot update a terminating namespace");
    }
}
