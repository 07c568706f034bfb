//! Fills the tables from a data directory or a snapshot, and brings the registry in step with the CRDs.

#[cfg(feature = "persistence")]
mod data_directory;

use std::collections::BTreeSet;
use std::sync::Arc;

#[cfg(feature = "persistence")]
pub(crate) use data_directory::load;

use super::kinds::crd_sync;
use crate::state::State;
use crate::status::Status;
use crate::storage::{StoredState, Table};

/// Replaces all objects by those of a snapshot. Open watches end: with 410 as an ERROR event, or without an event if
/// `as_restart`, like those of a server that restarts.
///
/// Objects keep their UIDs and resourceVersions. The resourceVersion of lists goes on, and the history begins anew. All objects change in one
/// step: a write at the same time comes before it and is undone, or comes after it and is checked against the restored objects.
pub(crate) fn restore(state: &State, snapshot: &StoredState, as_restart: bool) {
    let crds = crds(state);
    let crd_names = {
        // Tables are dropped under this lock only.
        let _changes = state.crd_changes.lock();
        let mut crd_names = names(&crds);
        let error =
            Status::expired("The resourceVersion for the provided watch is too old: a snapshot was restored");
        state.storage.replace_all(snapshot, (!as_restart).then_some(&error));
        crd_names.extend(names(&crds));
        // Serves the CRDs that came back, and drops the tables of those that are gone.
        sync_crds(state, &crd_names);
        crd_names
    };
    finalize_crds(state, &crd_names);
}

fn crds(state: &State) -> Arc<Table> {
    state.storage.table("apiextensions.k8s.io", "customresourcedefinitions")
}

fn names(table: &Table) -> BTreeSet<Box<str>> {
    table.list(None).0.iter().map(|object| object.name.clone()).collect()
}

/// Brings the registry in step with the current state of these CRDs, which may be gone. The caller holds `crd_changes`.
fn sync_crds(state: &State, names: &BTreeSet<Box<str>>) {
    let crds = crds(state);
    for name in names {
        let crd = crds.get("", name).map(|crd| crd.value());
        crd_sync::sync_registry(state, name, crd.as_ref());
    }
}

/// Continues the deletion of those CRDs that are being deleted. While controllers run, they do that.
fn finalize_crds(state: &State, names: &BTreeSet<Box<str>>) {
    let crds = crds(state);
    for name in names {
        if crds.get("", name).is_some_and(|crd| crd.deleting) && !state.crds_finalized_later() {
            crd_sync::finalize(state, name);
        }
    }
}
