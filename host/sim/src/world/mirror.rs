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
#[derive(Default)]
struct Objects {
    /// By namespace and name.
    current: BTreeMap<(String, String), Arc<Value>>,
    /// The resource versions of all changes, in order.
    versions: Vec<u64>,
}

/// The objects of all resources. Shared with the server's storage is nothing, so reading them disturbs nobody.
#[derive(Default)]
pub(super) struct Mirror {
    /// By `plural.group`.
    resources: BTreeMap<String, Objects>,
    commits: u64,
}

impl Mirror {
    /// Applies a commit.
    pub(super) fn apply(&mut self, commit: &Commit) {
        self.commits += 1;
        let objects = self.resources.entry(resource(&commit.group, &commit.plural)).or_default();
        objects.versions.push(commit.revision);
        let key = (commit.namespace.clone(), commit.name.clone());
        match &commit.after {
            Some(after) => drop(objects.current.insert(key, Arc::new(after.clone()))),
            None => drop(objects.current.remove(&key)),
        }
    }

    /// Returns the current state of an object.
    pub(super) fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.resources.get(resource)?.current.get(&(namespace.to_owned(), name.to_owned()))
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
            all.extend(objects.current.into_iter().map(|((namespace, name), object)| StoredObject {
                resource: resource.clone(),
                namespace,
                name,
                object: Arc::unwrap_or_clone(object),
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
        objects.map(|objects| objects.current.values().cloned().collect()).unwrap_or_default()
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
}
