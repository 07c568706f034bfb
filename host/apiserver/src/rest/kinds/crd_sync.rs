//! Keeps the registry in step with the CRDs, and finishes their deletion.

use std::sync::Arc;

use serde_json::Value;

use super::api_services;
use super::strategy;
use crate::crd::{CLEANUP_FINALIZER, endpoints};
use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::verbs::delete::{DeleteOptions, Propagation, delete_unchecked};
use crate::rest::verbs::update::{ProposedUpdate, UpdateTarget, update_unchecked};
use crate::state::State;
use crate::storage::{Table, WriteError};

/// Applies a write to a CRD to the registry, before the response is sent. Does nothing for other kinds and dry runs.
pub(crate) fn after_write(state: &State, endpoint: &Endpoint, name: &str, dry_run: bool) {
    if dry_run || !strategy::is_crd(endpoint) {
        return;
    }
    let crds = &endpoint.resource.table;
    // The CRD is read under the lock, so that the registry ends with the state of the later of two concurrent writes.
    let crd = {
        let _changes = state.crd_changes.lock();
        let crd = crds.get("", name).map(|crd| crd.value());
        sync_registry(state, name, crd.as_ref());
        crd
    };
    match crd {
        None => retry_name_conflicts(state),
        Some(crd) if crd["metadata"]["deletionTimestamp"].is_string() && !state.crds_finalized_later() => {
            finalize(state, name);
        }
        Some(_) => {}
    }
}

/// Deletes the custom resources of a CRD that is being deleted, and the CRD once it has none left.
pub(crate) fn finalize(state: &State, name: &str) {
    delete_custom_resources(state, name);
    finish_deletion(state, name);
}

/// Finishes the deletion of a CRD after its last custom resource was deleted.
pub(crate) fn after_delete(state: &State, endpoint: &Endpoint) {
    if let Some(custom) = &endpoint.resource.custom
        && endpoint.resource.table.count(None) == 0
    {
        finish_deletion(state, &custom.crd);
    }
}

/// Replaces the endpoints of the CRD `name` in the registry with those that `crd`, its current state, defines.
pub(in crate::rest) fn sync_registry(state: &State, name: &str, crd: Option<&Value>) {
    let mut registry = (*state.registry()).clone();
    let previous = registry
        .preferred_endpoints()
        .into_iter()
        .find(|endpoint| endpoint.resource.custom.as_ref().is_some_and(|custom| custom.crd == name));
    if let Some(previous) = &previous {
        registry.remove(&previous.group, &previous.resource.names.plural);
    }
    let established = crd.filter(|crd| {
        let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        conditions
            .into_iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    });
    let mut outdated = None;
    match established {
        Some(crd) => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
            let table: Arc<Table> = state.storage.table(&group, &plural);
            let definition =
                |endpoint: &Endpoint| endpoint.resource.custom.as_ref().map(|custom| custom.definition);
            for endpoint in endpoints::from_crd(crd, &table, &state.webhooks) {
                outdated = previous.as_ref().filter(|previous| definition(previous) != definition(&endpoint));
                registry.insert(Arc::new(endpoint));
            }
        }
        None => {
            if let Some(previous) = &previous {
                // Closing the table ends the watches of the resource, which is no longer served.
                previous.resource.table.close();
                state.storage.drop_table(&previous.group, &previous.resource.names.plural);
            } else if crd.is_none()
                && let Some((plural, group)) = name.split_once('.')
                && !registry.serves(group, plural)
            {
                // A CRD without a served version had no endpoint, but its objects must not outlive it.
                state.storage.drop_table(group, plural);
            }
        }
    }
    state.set_registry(registry);
    if let Some(endpoint) = outdated {
        // As in Kubernetes, open watches end without an error, because they serve the resource as it was defined before.
        endpoint.resource.table.cut_watches(None);
    }
    api_services::sync(state);
}

fn delete_custom_resources(state: &State, name: &str) {
    let Some(endpoint) = endpoint_of_crd(state, name) else { return };
    let (objects, _) = endpoint.resource.table.list(None);
    for object in objects {
        let options = DeleteOptions::for_uid(&object.uid, Propagation::Background);
        // The object may have been deleted or replaced meanwhile. `after_delete` of the remaining ones finishes the CRD.
        let _ = delete_unchecked(state, &endpoint, (&object.namespace, &object.name), &options);
    }
}

/// Removes the cleanup finalizer of a CRD that is being deleted, once it has no custom resources left.
fn finish_deletion(state: &State, name: &str) {
    let registry = state.registry();
    let Some(crds) = registry.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
        return;
    };
    let table = &crds.resource.table;
    loop {
        if endpoint_of_crd(state, name).is_some_and(|endpoint| endpoint.resource.table.count(None) > 0) {
            return;
        }
        let Some(current) = table.get("", name).filter(|crd| crd.deleting) else { return };
        let mut value = current.value();
        let remaining: Vec<String> =
            meta::finalizers(&value).into_iter().filter(|finalizer| finalizer != CLEANUP_FINALIZER).collect();
        if remaining.len() == current.finalizers.len() {
            return;
        }
        let is_last = remaining.is_empty();
        meta::set_finalizers(&mut value, remaining);
        let draft = crds.resource.draft(value);
        let result = if is_last { table.delete(&current, draft) } else { table.update(&current, draft) };
        if matches!(result, Err(WriteError::TooLarge(_))) {
            return;
        }
        if result.is_ok() {
            {
                let _changes = state.crd_changes.lock();
                sync_registry(state, name, table.get("", name).map(|crd| crd.value()).as_ref());
            }
            return retry_name_conflicts(state);
        }
    }
}

/// Accepts the names of CRDs whose names were in use until now.
fn retry_name_conflicts(state: &State) {
    let registry = state.registry();
    let Some(crds) = registry.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
        return;
    };
    for crd in crds.resource.table.list(None).0 {
        let is_waiting = endpoint_of_crd(state, &crd.name).is_none() && !crd.deleting;
        if is_waiting {
            let options = WriteOptions::internal("apiextensions-apiserver");
            // An update without a change checks the names again; see `crd::prepare`.
            let result =
                update_unchecked(state, crds, ("", &crd.name), UpdateTarget::Object, &options, |old| {
                    Ok(ProposedUpdate { value: old.clone(), applied: true, retry: true })
                });
            if let Err(error) = result {
                tracing::debug!(%error, crd = %crd.name, "cannot accept the names of a CRD");
            }
        }
    }
}

/// Returns the preferred endpoint of the CRD `name`, if it is served.
fn endpoint_of_crd(state: &State, name: &str) -> Option<Arc<Endpoint>> {
    let is_defined_by_crd =
        |endpoint: &Arc<Endpoint>| endpoint.resource.custom.as_ref().is_some_and(|custom| custom.crd == name);
    state.registry().preferred_endpoints().into_iter().find(is_defined_by_crd)
}
