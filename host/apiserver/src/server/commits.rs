//! The writes that a server carried out, for simulations and tests that judge what clients and controllers did.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::registry::{Endpoint, Registry};
use crate::storage::{EventKind, JournalEntry, StoredObject};

/// One change of the stored state.
#[derive(Clone, Debug)]
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
    pub before: Option<CommittedObject>,
    /// The object after the change; `None` if it was deleted.
    pub after: Option<CommittedObject>,
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
        before: event.previous.as_ref().map(|object| CommittedObject::new(endpoint, object)),
        after: (!is_deleted).then(|| CommittedObject::new(endpoint, &event.object)),
    }
}

/// An object as it was stored. Cheap to clone.
#[derive(Clone)]
pub struct CommittedObject {
    object: Arc<StoredObject>,
    /// `None` if the resource is no longer served.
    endpoint: Option<Arc<Endpoint>>,
}

impl CommittedObject {
    fn new(endpoint: Option<&Arc<Endpoint>>, object: &Arc<StoredObject>) -> Self {
        Self { object: Arc::clone(object), endpoint: endpoint.cloned() }
    }

    /// Returns the object, with `apiVersion` and `kind` where the resource is still served. Creates it each time.
    #[must_use]
    pub fn value(&self) -> Value {
        let mut value = self.object.value();
        if let Some(endpoint) = &self.endpoint {
            if self.object.api_version.is_none() {
                value["apiVersion"] = Value::from(endpoint.api_version.as_str());
            }
            value["kind"] = Value::from(endpoint.kind());
        }
        value
    }
}

impl fmt::Debug for CommittedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}
