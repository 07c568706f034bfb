//! The fake API server. `guest-sdk/testing/cases.json` specifies it. It follows kube-apiserver, without schemas, defaults, admission and
//! the garbage collector.

mod apply;
pub(super) mod errors;
mod metadata;
mod writes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub(super) use self::apply::Apply;
use self::apply::tracked;
use self::metadata::{metadata, metadata_mut};
use super::kinds::Kind;
use super::select::{LabelSelector, matches_fields};
use crate::ObjectKey;
use crate::bindings::pilothouse::controller::types as wit;

type Answer = Result<Value, wit::ApiError>;

/// The time of every creation and deletion.
const NOW: &str = "2026-01-01T00:00:00Z";
/// The field manager of the test's own writes.
const ANOTHER_CLIENT: &str = "another client";
/// Identifies an object in the cluster. Sorts by type, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) key: ObjectKey,
}

impl Id {
    /// The identity of a manifest. Its parts are empty where the manifest lacks them.
    pub(super) fn of(object: &Value) -> Self {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        Self { api_version: text("apiVersion"), kind: text("kind"), key: key_of(object) }
    }
}

/// Returns the key of a manifest.
pub(super) fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(metadata(object, "namespace"), metadata(object, "name"))
}

/// Selects objects of one type.
pub(super) struct Selection<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    /// "" for all namespaces.
    pub(super) namespace: &'a str,
    pub(super) labels: LabelSelector,
    pub(super) fields: &'a str,
}

/// Which part of an object a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Object,
    Status,
}

/// An object, and the field managers of its values by JSON pointer: "NAME apply" for applies, "NAME" for other writes.
struct Stored {
    object: Value,
    owners: Owners,
}

type Owners = BTreeMap<String, BTreeSet<String>>;

/// The objects of a fake API server.
pub(super) struct Cluster {
    crds: Vec<Value>,
    objects: BTreeMap<Id, Stored>,
    version: u64,
}

impl Cluster {
    pub(super) fn new(crds: Vec<Value>) -> Self {
        Self { crds, objects: BTreeMap::new(), version: 0 }
    }

    pub(super) fn kind(&self, id: &Id) -> Kind {
        Kind::of(&self.crds, &id.api_version, &id.kind)
    }

    pub(super) fn find(&self, id: &Id) -> Option<&Value> {
        self.objects.get(id).map(|stored| &stored.object)
    }

    pub(super) fn require(&self, id: &Id, part: Part) -> Answer {
        let kind = self.kind(id);
        let found = self.find(id).filter(|_| part == Part::Object || kind.has_status);
        let missing = || wit::ApiError::NotFound(format!("{} {:?} not found", kind.resource(), id.key.name));
        found.cloned().ok_or_else(missing)
    }

    /// Returns the selected objects, sorted by namespace and name.
    pub(super) fn select(&self, selection: &Selection<'_>) -> Vec<Value> {
        let Selection { api_version, kind, namespace, labels, fields } = selection;
        let is_selected = |id: &Id, object: &Value| {
            id.api_version == *api_version
                && id.kind == *kind
                && (namespace.is_empty() || id.key.namespace == *namespace)
                && labels.matches(object)
                && matches_fields(fields, object)
        };
        let selected = self.objects.iter().filter(|(id, stored)| is_selected(id, &stored.object));
        selected.map(|(_, stored)| stored.object.clone()).collect()
    }

    fn new_uid(&self) -> Value {
        format!("uid-{}", self.version + 1).into()
    }

    fn next_version(&mut self) -> Value {
        self.version += 1;
        self.version.to_string().into()
    }

    fn store(&mut self, id: &Id, mut object: Value, manager: &str) -> Value {
        let version = self.next_version();
        metadata_mut(&mut object).insert("resourceVersion".into(), version);
        let present = self.objects.get(id);
        let before = present.map(|stored| tracked(&stored.object)).unwrap_or_default();
        let owners_of = |pointer: &str, value: &Value| {
            let is_unchanged = before.get(pointer) == Some(value);
            let known = present.and_then(|stored| stored.owners.get(pointer));
            match known.filter(|_| is_unchanged) {
                Some(known) => known.clone(),
                None => BTreeSet::from([manager.to_owned()]),
            }
        };
        let owners = tracked(&object)
            .into_iter()
            .map(|(pointer, value)| {
                let owners = owners_of(&pointer, &value);
                (pointer, owners)
            })
            .collect();
        self.objects.insert(id.clone(), Stored { object: object.clone(), owners });
        object
    }

    /// Removes an object, and returns its last state.
    fn take(&mut self, id: &Id, mut object: Value) -> Value {
        let version = self.next_version();
        self.objects.remove(id);
        metadata_mut(&mut object).insert("resourceVersion".into(), version);
        object
    }
}
