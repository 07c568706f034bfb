use std::collections::BTreeSet;
use std::sync::Arc;

use super::remaining::Remaining;
use super::{Change, Controller, MANAGER};
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::delete::{DeleteOptions, Propagation, delete};
use crate::rest::update::{self, Part};
use crate::rest::{kinds, meta};
use crate::server::State;

/// Empties namespaces that are being deleted, and lets them go when they are empty.
#[derive(Default)]
pub(super) struct Namespaces {
    ending: BTreeSet<Box<str>>,
}

impl Controller for Namespaces {
    fn observe(&mut self, endpoint: &Arc<Endpoint>, change: Change<'_>) {
        if !kinds::is_namespace(endpoint) {
            return;
        }
        match change {
            Change::Present(namespace) if namespace.deleting => self.ending.insert(namespace.name.clone()),
            Change::Present(namespace) | Change::Gone(namespace) => self.ending.remove(&namespace.name),
        };
    }

    fn act(&mut self, state: &State) {
        for namespace in &self.ending {
            let remaining = empty(state, namespace);
            if remaining.is_nothing() {
                finalize(state, namespace);
            } else {
                report(state, namespace, &remaining);
            }
        }
    }
}

/// Deletes what is in a namespace, and tells what stays.
fn empty(state: &State, namespace: &str) -> Remaining {
    let mut remaining = Remaining::default();
    for endpoint in state.registry().resources() {
        let resource = &endpoint.resource;
        if !resource.namespaced || resource.table.count(Some(namespace)) == 0 {
            continue;
        }
        for object in resource.table.list(Some(namespace)).0 {
            if object.deleting {
                continue;
            }
            let options = DeleteOptions::of_uid(&object.uid, Propagation::Background);
            match delete(state, &endpoint, (namespace, &object.name), &options) {
                Ok(_) => {}
                // Somebody else was faster.
                Err(status) if status.code == 404 => {}
                Err(status) => remaining.failures.push(status.message),
            }
        }
        let name = format!("{}.{}", resource.names.plural, resource.group);
        remaining.count(name, &resource.table.list(Some(namespace)).0);
    }
    remaining
}

/// Tells in the namespace's status what it still waits for.
fn report(state: &State, namespace: &str, remaining: &Remaining) {
    let registry = state.registry();
    let Some(namespaces) = registry.endpoint("", "v1", "namespaces") else { return };
    let now = state.now();
    let options = WriteOptions::internal(MANAGER);
    let done = update::update(state, namespaces, ("", namespace), Part::Status, &options, |old| {
        let mut value = old.clone();
        remaining.set_conditions(&mut value["status"], &now);
        meta::of(&mut value).remove("resourceVersion");
        Ok(update::Change { value, applied: false, retry: true })
    });
    if let Err(error) = done {
        tracing::debug!(%error, namespace, "the namespace was gone already");
    }
}

/// Takes the finalizer `kubernetes` from an empty namespace, which ends it unless it has other finalizers.
fn finalize(state: &State, namespace: &str) {
    let registry = state.registry();
    let Some(namespaces) = registry.endpoint("", "v1", "namespaces") else { return };
    let options = WriteOptions::internal(MANAGER);
    let done = update::update(state, namespaces, ("", namespace), Part::Finalize, &options, |old| {
        let mut value = old.clone();
        if let Some(finalizers) = value["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != "kubernetes");
        }
        if value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
            && let Some(spec) = value["spec"].as_object_mut()
        {
            spec.remove("finalizers");
        }
        meta::of(&mut value).remove("resourceVersion");
        Ok(update::Change { value, applied: false, retry: true })
    });
    if let Err(error) = done {
        tracing::debug!(%error, namespace, "the namespace was gone already");
    }
}
