//! Fills the tables from a data directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{crds, finalize_crds, names, sync_crds};
use crate::persistence::{DataDirectory, DataError, LoadedObject};
use crate::registry::Endpoint;
use crate::state::State;
use crate::storage::{StoredObject, TableName};

/// Fills empty tables with the objects of a data directory.
///
/// # Errors
/// If an object cannot be read. The state must not be used then.
pub(crate) fn load(state: &State, data: &DataDirectory) -> Result<(), DataError> {
    let endpoints = state.registry().preferred_endpoints();
    let endpoints = endpoints.into_iter().map(|endpoint| {
        let resource = &endpoint.resource;
        ((resource.group.clone(), resource.names.plural.clone()), endpoint)
    });
    let built_in: BTreeMap<TableName, Arc<Endpoint>> = endpoints.collect();
    data.load(&mut |loaded| {
        let LoadedObject { table, mut object, revision } = loaded;
        if let Some(endpoint) = built_in.get(&table) {
            // The version of the server that stored the object may have had other selectable fields.
            object = endpoint.resource.draft(object.value);
        }
        state.storage.table(&table.0, &table.1).load(StoredObject::new(object, revision));
    })?;
    let crds = crds(state);
    for table in state.storage.tables() {
        let (group, plural) = table.name();
        let is_custom = !built_in.contains_key(table.name());
        // A crash in the middle of the deletion of a CRD. Its objects must not come back with another CRD of the same name.
        if is_custom && crds.get("", &format!("{plural}.{group}")).is_none() {
            state.storage.drop_table(group, plural);
        }
    }
    let names = names(&crds);
    {
        let _changes = state.crd_changes.lock();
        sync_crds(state, &names);
    }
    finalize_crds(state, &names);
    Ok(())
}
