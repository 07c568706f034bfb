//! What plugins change in a run: the fields, finalizers, labels, annotations and owner references that are theirs.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::analysis::RunView;

/// What plugins change. Each entry is a resource, and a finalizer, a kind or a JSON pointer.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnChanges {
    pub(super) added_finalizers: BTreeSet<(String, String)>,
    pub(super) removed_finalizers: BTreeSet<(String, String)>,
    /// The fields that they change in objects that exist.
    pub(super) fields: BTreeSet<(String, String)>,
    /// The fields with which they create objects.
    pub(super) created_fields: BTreeSet<(String, String)>,
    /// The labels and annotations that they add, also to objects that they create.
    pub(super) added_metadata: BTreeSet<(String, String)>,
    /// The kinds of the owners that they add.
    pub(super) added_owner_kinds: BTreeSet<(String, String)>,
}

impl OwnChanges {
    /// Finds what the plugins change in a run.
    pub(super) fn of(run: &RunView<'_>) -> Self {
        let mut own = Self::default();
        for (_, request) in run.effective_writes() {
            let (older, newer) = (request.before.as_deref(), request.after.as_deref());
            let named = |name: &str| (request.resource.clone(), name.to_owned());
            let (before, after) = (finalizers(older), finalizers(newer));
            own.added_finalizers.extend(after.difference(&before).map(|name| named(name)));
            own.removed_finalizers.extend(before.difference(&after).map(|name| named(name)));
            own.fields.extend(changed_pointers(older, newer).iter().map(|pointer| named(pointer)));
            if older.is_none() {
                let nothing = Value::Object(serde_json::Map::new());
                let fields = changed_pointers(Some(&nothing), newer);
                own.created_fields.extend(fields.iter().map(|pointer| named(pointer)));
            }
            let (before, after) = (metadata_pointers(older), metadata_pointers(newer));
            own.added_metadata.extend(after.difference(&before).map(|pointer| named(pointer)));
            let known = owners(older);
            let added = owners(newer).iter().filter(|owner| !known.contains(owner));
            own.added_owner_kinds
                .extend(added.map(|owner| named(owner["kind"].as_str().unwrap_or_default())));
        }
        own
    }
}

/// Returns the finalizers of an object.
pub(super) fn finalizers(object: Option<&Value>) -> BTreeSet<&str> {
    let list = object.and_then(|object| object["metadata"]["finalizers"].as_array());
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the owner references of an object.
pub(super) fn owners(object: Option<&Value>) -> &[Value] {
    object.and_then(|object| object["metadata"]["ownerReferences"].as_array()).map_or(&[], Vec::as_slice)
}

/// Returns the JSON pointers of the labels and annotations of an object.
fn metadata_pointers(object: Option<&Value>) -> BTreeSet<String> {
    let Some(metadata) = object.map(|object| &object["metadata"]) else { return BTreeSet::new() };
    let keys = |member: &'static str| {
        let keys = metadata[member].as_object().into_iter().flat_map(serde_json::Map::keys);
        keys.map(move |key| format!("/metadata/{member}/{}", escaped(key)))
    };
    keys("labels").chain(keys("annotations")).collect()
}

/// Returns a member's name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns the pointers of the leaves that differ, without those that the server sets.
pub(super) fn changed_pointers(before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
    fn walk(before: &Value, after: &Value, pointer: &str, depth: usize, found: &mut Vec<String>) {
        const SERVER: [&str; 6] = [
            "/metadata/resourceVersion",
            "/metadata/generation",
            "/metadata/managedFields",
            "/metadata/finalizers",
            "/metadata/deletionTimestamp",
            "/metadata/deletionGracePeriodSeconds",
        ];
        if before == after || depth > 100 || SERVER.contains(&pointer) {
            return;
        }
        match (before.as_object(), after.as_object()) {
            (None, None) => found.push(pointer.to_owned()),
            (before, after) => {
                let members = [before, after].into_iter().flatten();
                let names: BTreeSet<&String> = members.flat_map(serde_json::Map::keys).collect();
                for name in names {
                    let [before, after] =
                        [before, after].map(|map| map.and_then(|map| map.get(name)).unwrap_or(&Value::Null));
                    if before != after {
                        let pointer = format!("{pointer}/{}", escaped(name));
                        walk(before, after, &pointer, depth + 1, found);
                    }
                }
            }
        }
    }
    let mut found = Vec::new();
    if let (Some(before), Some(after)) = (before, after) {
        walk(before, after, "", 0, &mut found);
    }
    found
}
