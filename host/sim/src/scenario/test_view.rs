//! A view of a fixed list of objects, for tests.

use std::sync::Arc;

use pilothouse_model::ResourceType;
use serde_json::Value;

use crate::actor::ObjectView;

/// Objects that a test changes.
pub(super) struct TestView {
    pub(super) objects: Vec<Arc<Value>>,
    pub(super) revision: u64,
}

impl TestView {
    pub(super) fn new(objects: Vec<Value>) -> Self {
        Self { objects: objects.into_iter().map(Arc::new).collect(), revision: 1 }
    }

    /// Adds an object, or replaces the one of the same kind, namespace and name.
    pub(super) fn put(&mut self, object: Value) {
        self.remove(&object);
        self.objects.push(Arc::new(object));
    }

    pub(super) fn remove(&mut self, object: &Value) {
        self.revision += 1;
        let id = |object: &Value| {
            let metadata = &object["metadata"];
            (object["kind"].clone(), metadata["namespace"].clone(), metadata["name"].clone())
        };
        self.objects.retain(|known| id(known) != id(object));
    }
}

impl ObjectView for TestView {
    fn revision(&self) -> u64 {
        self.revision
    }

    fn list(&self, resource: &ResourceType) -> Vec<Arc<Value>> {
        let mut found: Vec<_> =
            self.objects.iter().filter(|object| object["kind"] == *resource.kind).cloned().collect();
        let key = |object: &Arc<Value>| {
            (object["metadata"]["namespace"].to_string(), object["metadata"]["name"].to_string())
        };
        found.sort_by_key(key);
        found
    }

    fn get(&self, resource: &ResourceType, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.list(resource).into_iter().find(|object| {
            let metadata = &object["metadata"];
            metadata["name"] == name && metadata["namespace"].as_str().unwrap_or_default() == namespace
        })
    }
}
