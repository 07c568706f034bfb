//! Labels: names of objects that hold in any cluster. UIDs and generated names are replaced by placeholders, which the script resolves.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::analysis::{Names, ObjectId, RunView, metadata};
use crate::run::RequestEvent;

/// The labels of a run's objects: `RESOURCE KEY#N` for the N-th object that was created at a canonical address.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// The labels by UID.
    by_uid: BTreeMap<String, String>,
    /// The labels of objects with a generated name, by name.
    by_name: BTreeMap<String, String>,
}

impl Labels {
    /// Labels the objects of a run in the order of their creation.
    pub(super) fn of(view: &RunView<'_>) -> Self {
        let mut labels = Self::default();
        let mut counts: BTreeMap<ObjectId, usize> = BTreeMap::new();
        for (_, _, request) in view.requests() {
            let (true, None, Some(after)) = (request.changed, &request.before, &request.after) else {
                continue;
            };
            let id = view.names.canonical_id(&request.object_id());
            let count = counts.entry(id.clone()).or_default();
            *count += 1;
            let label = format!("{id}#{count}");
            if view.names.is_generated(&request.name) {
                labels.by_name.insert(request.name.clone(), label.clone());
            }
            if let Some(uid) = metadata(after, "uid") {
                labels.by_uid.insert(uid.to_owned(), label);
            }
        }
        labels
    }

    /// Returns the label of the object that a request is about: without a number for a create, which does not depend on how many there
    /// were before.
    pub(super) fn of_request(&self, request: &RequestEvent, names: &Names) -> String {
        let id = names.canonical_id(&request.object_id()).to_string();
        let object = request.before.as_deref().or(request.after.as_deref());
        let uid = object.and_then(|object| metadata(object, "uid"));
        match uid.and_then(|uid| self.by_uid.get(uid)) {
            Some(label) if request.before.is_some() || !request.changed => label.clone(),
            _ => id,
        }
    }

    /// Replaces UIDs and generated names in a value by `${uid:LABEL}` and `${name:LABEL}`.
    pub(super) fn replace(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::from(self.replace_text(text)),
            Value::Array(items) => items.iter().map(|item| self.replace(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, member)| (self.replace_text(name), self.replace(member))).collect()
            }
            value => value.clone(),
        }
    }

    /// Replaces UIDs and generated names in a text.
    pub(super) fn replace_text(&self, text: &str) -> String {
        let mut replaced = text.to_owned();
        for (kind, labels) in [("uid", &self.by_uid), ("name", &self.by_name)] {
            for (found, label) in labels {
                if replaced.contains(found.as_str()) {
                    replaced = replaced.replace(found, &format!("${{{kind}:{label}}}"));
                }
            }
        }
        replaced
    }
}
