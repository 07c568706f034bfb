//! The writes that a server carried out, for simulations and tests that judge what clients and controllers did.

use std::sync::Arc;

use serde_json::Value;

use crate::registry::{Endpoint, Registry};
use crate::storage::{EventKind, JournalEntry, StoredObject};

/// One change of the stored state.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The API group, "" for core.
    pub group: String,
    /// The plural name of the resource.
    pub plural: String,
    /// The namespace, "" for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The resource version of the change.
    pub revision: u64,
    /// The object before the change; `None` if it was created.
    pub before: Option<Value>,
    /// The object after the change; `None` if it was deleted.
    pub after: Option<Value>,
}

/// Returns the change of a journal entry.
pub(super) fn commit(registry: &Registry, (table, event): &JournalEntry) -> Commit {
    let (group, plural) = (&table.0, &table.1);
    let versions = registry.groups().get(group).into_iter().flat_map(|group| &group.versions);
    let endpoint = versions.filter_map(|version| version.endpoints.get(plural)).next();
    let is_deleted = event.kind == EventKind::Deleted;
    Commit {
        group: group.clone(),
        plural: plural.clone(),
        namespace: event.object.namespace.to_string(),
        name: event.object.name.to_string(),
        revision: event.revision(),
        before: event.previous.as_ref().map(|object| value(endpoint, object)),
        after: (!is_deleted).then(|| value(endpoint, &event.object)),
    }
}

/// Returns the object with `apiVersion` and `kind`, where the resource is still served.
fn value(endpoint: Option<&Arc<Endpoint>>, object: &StoredObject) -> Value {
    let mut value = object.value();
    if let Some(endpoint) = endpoint {
        if object.api_version.is_none() {
            value["apiVersion"] = Value::from(endpoint.api_version.as_str());
        }
        value["kind"] = Value::from(endpoint.kind());
    }
    value
}
