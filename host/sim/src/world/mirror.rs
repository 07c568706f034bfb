//! The objects of the server as they are stored now, built from the commits.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_apiserver::Commit;
use pilothouse_model::ResourceType;
use serde_json::Value;

use super::request::resource;
use crate::actor::ObjectView;
use crate::run::StoredObject;

/// The objects of one resource.
#[derive(Clone, Default)]
struct Objects {
    /// By namespace and name.
    current: BTreeMap<(String, String), Entry>,
    /// The resource versions of all changes, in order.
    versions: Vec<u64>,
}

/// An object.
#[derive(Clone)]
struct Entry {
    object: Arc<Value>,
    /// Whether the server began with it, and nobody has changed it.
    is_initial: bool,
}

/// A commit with its objects.
#[derive(Debug)]
pub(super) struct Change {
    /// The resource as `plural.group`.
    pub(super) resource: String,
    /// The namespace, "" for cluster-scoped objects.
    pub(super) namespace: String,
    /// The object's name.
    pub(super) name: String,
    /// The resource version of the change.
    revision: u64,
    /// The object before the change; `None` if it was created.
    pub(super) before: Option<Arc<Value>>,
    /// The object after the change; `None` if it was deleted.
    pub(super) after: Option<Arc<Value>>,
}

impl Change {
    fn of(commit: Commit) -> Self {
        Self {
            resource: resource(&commit.group, &commit.plural),
            namespace: commit.namespace,
            name: commit.name,
            revision: commit.revision,
            before: None,
            after: commit.after.map(|after| Arc::new(after.value())),
        }
    }
}

/// The objects of all resources. Shared with the server's storage is nothing, so reading them disturbs nobody.
#[derive(Clone, Default)]
pub(super) struct Mirror {
    /// By `plural.group`.
    resources: BTreeMap<String, Objects>,
    commits: u64,
}

impl Mirror {
    /// Returns the objects with which a server begins, from the commits that created them. They are no changes of the run.
    pub(super) fn of_initial(commits: Vec<Commit>) -> Self {
        let mut mirror = Self::default();
        for commit in commits {
            mirror.put(&mut Change::of(commit), true);
        }
        mirror
    }

    /// Applies a commit. Returns what it changes.
    pub(super) fn apply(&mut self, commit: Commit) -> Change {
        let mut change = Change::of(commit);
        self.put_change(&mut change);
        change
    }

    fn put_change(&mut self, change: &mut Change) {
        self.commits += 1;
        self.put(change, false).versions.push(change.revision);
    }

    /// Stores the object of the change, and completes the change by the object before.
    fn put(&mut self, change: &mut Change, is_initial: bool) -> &mut Objects {
        let objects = self.resources.entry(change.resource.clone()).or_default();
        let key = (change.namespace.clone(), change.name.clone());
        let before = match &change.after {
            Some(after) => objects.current.insert(key, Entry { object: Arc::clone(after), is_initial }),
            None => objects.current.remove(&key),
        };
        change.before = before.map(|entry| entry.object);
        objects
    }

    /// Returns the current state of an object.
    pub(super) fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        let objects = self.resources.get(resource)?;
        objects.current.get(&(namespace.to_owned(), name.to_owned())).map(|entry| &entry.object)
    }

    /// Returns a resource version at which the last `changes` changes of the resource had not happened yet; `None` if it never changed.
    pub(super) fn version_before(&self, resource: &str, changes: u32) -> Option<u64> {
        let versions = &self.resources.get(resource)?.versions;
        let index = versions.len().saturating_sub(usize::try_from(changes).unwrap_or(usize::MAX));
        Some(versions.get(index)?.saturating_sub(1))
    }

    /// Returns all objects, in the order of resource, namespace and name.
    pub(super) fn into_objects(self) -> Vec<StoredObject> {
        let mut all = Vec::new();
        for (resource, objects) in self.resources {
            all.extend(objects.current.into_iter().map(|((namespace, name), entry)| StoredObject {
                resource: resource.clone(),
                namespace,
                name,
                object: entry.object,
                is_initial: entry.is_initial,
            }));
        }
        all
    }
}

impl ObjectView for Mirror {
    fn revision(&self) -> u64 {
        self.commits
    }

    fn list(&self, of: &ResourceType) -> Vec<Arc<Value>> {
        let objects = self.resources.get(&resource(&of.group, &of.plural));
        let values =
            |objects: &Objects| objects.current.values().map(|entry| Arc::clone(&entry.object)).collect();
        objects.map(values).unwrap_or_default()
    }

    fn get(&self, of: &ResourceType, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.object(&resource(&of.group, &of.plural), namespace, name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(name: &str, revision: u64, after: Option<Value>) -> Change {
        Change {
            resource: "deployments.apps".to_owned(),
            namespace: "a".to_owned(),
            name: name.to_owned(),
            revision,
            before: None,
            after: after.map(Arc::new),
        }
    }

    #[test]
    fn commits_give_the_current_objects_and_the_versions_before_them() {
        let mut mirror = Mirror::default();
        mirror.put_change(&mut change("x", 5, Some(json!({"n": 1}))));
        mirror.put_change(&mut change("x", 8, Some(json!({"n": 2}))));
        mirror.put_change(&mut change("y", 9, Some(json!({}))));
        mirror.put_change(&mut change("y", 12, None));
        assert_eq!(
            mirror.object("deployments.apps", "a", "x").map(|object| object["n"].clone()),
            Some(json!(2))
        );
        assert!(mirror.object("deployments.apps", "a", "y").is_none());
        let before = |changes| mirror.version_before("deployments.apps", changes);
        assert_eq!((before(1), before(2), before(4), before(9)), (Some(11), Some(8), Some(4), Some(4)));
        assert_eq!(mirror.version_before("pods", 1), None);
        assert_eq!(mirror.revision(), 4);
        assert_eq!(mirror.into_objects().len(), 1);
    }

    #[test]
    fn what_a_server_begins_with_is_no_change_until_somebody_changes_it() {
        let mut mirror = Mirror::default();
        for name in ["x", "y"] {
            mirror.put(&mut change(name, 3, Some(json!({}))), true);
        }
        assert_eq!((mirror.revision(), mirror.version_before("deployments.apps", 1)), (0, None));
        let mut changed = change("y", 5, Some(json!({"n": 1})));
        mirror.put_change(&mut changed);
        assert_eq!(changed.before.as_deref(), Some(&json!({})));
        assert_eq!(mirror.version_before("deployments.apps", 9), Some(4));
        let objects = mirror.into_objects().into_iter();
        let found: Vec<_> = objects.map(|object| (object.name, object.is_initial)).collect();
        assert_eq!(found, [("x".to_owned(), true), ("y".to_owned(), false)]);
    }
}
