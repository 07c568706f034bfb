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

/// The objects of all resources. Shared with the server's storage is nothing, so reading them disturbs nobody.
#[derive(Clone, Default)]
pub(super) struct Mirror {
    /// By `plural.group`.
    resources: BTreeMap<String, Objects>,
    commits: u64,
}

impl Mirror {
    /// Returns the objects with which a server begins, from the commits that created them. They are no changes of the run.
    pub(super) fn of_initial(commits: &[Commit]) -> Self {
        let mut mirror = Self::default();
        for commit in commits {
            mirror.put(commit, true);
        }
        mirror
    }

    /// Applies a commit.
    pub(super) fn apply(&mut self, commit: &Commit) {
        self.commits += 1;
        self.put(commit, false).versions.push(commit.revision);
    }

    fn put(&mut self, commit: &Commit, is_initial: bool) -> &mut Objects {
        let objects = self.resources.entry(resource(&commit.group, &commit.plural)).or_default();
        let key = (commit.namespace.clone(), commit.name.clone());
        match &commit.after {
            Some(after) => {
                let entry = Entry { object: Arc::new(after.clone()), is_initial };
                drop(objects.current.insert(key, entry));
            }
            None => drop(objects.current.remove(&key)),
        }
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

    fn commit(name: &str, revision: u64, after: Option<Value>) -> Commit {
        Commit {
            group: "apps".to_owned(),
            plural: "deployments".to_owned(),
            namespace: "a".to_owned(),
            name: name.to_owned(),
            revision,
            before: None,
            after,
        }
    }

    #[test]
    fn commits_give_the_current_objects_and_the_versions_before_them() {
        let mut mirror = Mirror::default();
        mirror.apply(&commit("x", 5, Some(json!({"n": 1}))));
        mirror.apply(&commit("x", 8, Some(json!({"n": 2}))));
        mirror.apply(&commit("y", 9, Some(json!({}))));
        mirror.apply(&commit("y", 12, None));
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
        let initial = [commit("x", 3, Some(json!({}))), commit("y", 4, Some(json!({})))];
        let mut mirror = Mirror::of_initial(&initial);
        assert_eq!((mirror.revision(), mirror.version_before("deployments.apps", 1)), (0, None));
        mirror.apply(&commit("y", 5, Some(json!({"n": 1}))));
        assert_eq!(mirror.version_before("deployments.apps", 9), Some(4));
        let objects = mirror.into_objects().into_iter();
        let found: Vec<_> = objects.map(|object| (object.name, object.is_initial)).collect();
        assert_eq!(found, [("x".to_owned(), true), ("y".to_owned(), false)]);
    }
}
