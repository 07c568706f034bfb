use std::sync::Arc;

use serde_json::Value;

use crate::crd::{CLEANUP, endpoints};
use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::delete::{DeleteOptions, Propagation, delete};
use crate::rest::strategy;
use crate::rest::update::{ProposedUpdate, UpdateTarget, update};
use crate::state::State;
use crate::storage::Table;

/// Follows a write to a CRD: what it defines is served before the write is answered.
pub(crate) fn after_write(state: &State, endpoint: &Endpoint, name: &str, dry_run: bool) {
    if dry_run || !strategy::is_crd(endpoint) {
        return;
    }
    let crds = &endpoint.resource.table;
    // The CRD is read under the lock: of two writes, the later one's state is what stays.
    let crd = {
        let _changes = state.crd_changes.lock();
        let crd = crds.get("", name).map(|crd| crd.value());
        sync(state, name, crd.as_ref());
        crd
    };
    match crd {
        None => reconsider(state),
        Some(crd) if crd["metadata"]["deletionTimestamp"].is_string() => {
            delete_objects(state, name);
            finish(state, name);
        }
        Some(_) => {}
    }
}

/// Follows the removal of an object: the last custom resource lets its CRD go.
pub(crate) fn after_delete(state: &State, endpoint: &Endpoint) {
    if let Some(custom) = &endpoint.resource.custom
        && endpoint.resource.table.count(None) == 0
    {
        finish(state, &custom.crd);
    }
}

/// Makes the registry agree with a CRD's state.
fn sync(state: &State, name: &str, crd: Option<&Value>) {
    let mut registry = (*state.registry()).clone();
    let before = registry
        .resources()
        .into_iter()
        .find(|endpoint| endpoint.resource.custom.as_ref().is_some_and(|custom| custom.crd == name));
    if let Some(before) = &before {
        registry.remove(&before.group, &before.resource.names.plural);
    }
    let established = crd.filter(|crd| {
        let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        conditions
            .into_iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    });
    match established {
        Some(crd) => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
            let table: Arc<Table> = state.storage.table(&group, &plural);
            for endpoint in endpoints::of(crd, &table) {
                registry.insert(Arc::new(endpoint));
            }
        }
        None => {
            if let Some(before) = &before {
                // Watches of what is no longer served end.
                before.resource.table.close();
                state.storage.drop_table(&before.group, &before.resource.names.plural);
            }
        }
    }
    state.set_registry(registry);
}

fn delete_objects(state: &State, name: &str) {
    let Some(endpoint) = served(state, name) else { return };
    let (objects, _) = endpoint.resource.table.list(None);
    for object in objects {
        let options = DeleteOptions::for_uid(&object.uid, Propagation::Background);
        // It may be gone, or be another by now; both are found again by the next one to go.
        let _ = delete(state, &endpoint, (&object.namespace, &object.name), &options);
    }
}

/// Takes the finalizer from a CRD that is being deleted and has no objects left.
fn finish(state: &State, name: &str) {
    let registry = state.registry();
    let Some(crds) = registry.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
        return;
    };
    let table = &crds.resource.table;
    loop {
        if served(state, name).is_some_and(|endpoint| endpoint.resource.table.count(None) > 0) {
            return;
        }
        let Some(current) = table.get("", name).filter(|crd| crd.deleting) else { return };
        let mut value = current.value();
        let rest: Vec<String> =
            meta::finalizers(&value).into_iter().filter(|finalizer| finalizer != CLEANUP).collect();
        if rest.len() == current.finalizers.len() {
            return;
        }
        let last = rest.is_empty();
        meta::set_finalizers(&mut value, rest);
        let draft = crds.resource.draft(value);
        let done = if last { table.delete(&current, draft) } else { table.update(&current, draft) };
        if done.is_ok() {
            {
                let _changes = state.crd_changes.lock();
                sync(state, name, table.get("", name).map(|crd| crd.value()).as_ref());
            }
            return reconsider(state);
        }
    }
}

/// Accepts the names of CRDs that had to wait for them.
fn reconsider(state: &State) {
    let registry = state.registry();
    let Some(crds) = registry.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
        return;
    };
    for crd in crds.resource.table.list(None).0 {
        let waits = served(state, &crd.name).is_none() && !crd.deleting;
        if waits {
            let options = WriteOptions::internal("apiextensions-apiserver");
            // An update without a change reads the names anew.
            let done = update(state, crds, ("", &crd.name), UpdateTarget::Object, &options, |old| {
                Ok(ProposedUpdate { value: old.clone(), applied: true, retry: true })
            });
            if let Err(error) = done {
                tracing::debug!(%error, crd = %crd.name, "the names of a CRD were not accepted");
            }
        }
    }
}

fn served(state: &State, name: &str) -> Option<Arc<Endpoint>> {
    let is_it =
        |endpoint: &Arc<Endpoint>| endpoint.resource.custom.as_ref().is_some_and(|custom| custom.crd == name);
    state.registry().resources().into_iter().find(is_it)
}
