use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::{Change, Controller, MANAGER};
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::delete::{DeleteOptions, Propagation, delete};
use crate::rest::kinds;
use crate::rest::update::{self, Part};
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
            if empty(state, namespace) {
                finalize(state, namespace);
            }
        }
    }
}

/// Deletes what is in a namespace. Whether nothing is left.
fn empty(state: &State, namespace: &str) -> bool {
    let mut left = 0;
    for endpoint in state.registry().resources() {
        if !endpoint.resource.namespaced || endpoint.resource.table.count(Some(namespace)) == 0 {
            continue;
        }
        for object in endpoint.resource.table.list(Some(namespace)).0 {
            if object.deleting {
                continue;
            }
            let options = DeleteOptions::of_uid(&object.uid, Propagation::Background);
            if let Err(error) = delete(state, &endpoint, (namespace, &object.name), &options) {
                tracing::debug!(%error, namespace, name = %object.name, "left in an ending namespace");
            }
        }
        left += endpoint.resource.table.count(Some(namespace));
    }
    left == 0
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
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        Ok(update::Change { value, applied: false, retry: true })
    });
    if let Err(error) = done {
        tracing::debug!(%error, namespace, "the namespace was gone already");
    }
}
