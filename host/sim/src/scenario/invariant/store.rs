//! The objects of the server at each point of a run, rebuilt from its events.

use std::cell::RefCell;
use std::collections::BTreeMap;

use pilothouse_cel::{Value as CelValue, from_json};
use pilothouse_model::ResourceType;
use serde_json::Value;

use super::super::kinds::run_name;
use super::super::program::ObjectValues;
use crate::run::{EventKind, RequestEvent, Run};

/// Resource, namespace and name.
type Key = (String, String, String);

/// An object, and its CEL value once an expression has read it.
struct Entry {
    object: Value,
    value: RefCell<Option<CelValue>>,
}

impl Entry {
    fn new(object: Value) -> Self {
        Self { object, value: RefCell::new(None) }
    }

    fn value(&self) -> CelValue {
        self.value.borrow_mut().get_or_insert_with(|| from_json(self.object.clone())).clone()
    }
}

/// The objects at one point of a run.
pub(super) struct Store(BTreeMap<Key, Entry>);

impl Store {
    /// Returns the objects at the start of a run: those at its end, with all changes undone in reverse order.
    pub(super) fn at_start(run: &Run) -> Self {
        let mut objects: BTreeMap<Key, &Value> = run
            .objects
            .iter()
            .map(|stored| {
                let key = (normalised(&stored.resource), stored.namespace.clone(), stored.name.clone());
                (key, &stored.object)
            })
            .collect();
        for event in run.events.iter().rev() {
            if let EventKind::Request(request) = &event.kind
                && request.changed
            {
                let key = key(request);
                match &request.before {
                    Some(before) => objects.insert(key, before),
                    None => objects.remove(&key),
                };
            }
        }
        Self(objects.into_iter().map(|(key, object)| (key, Entry::new(object.clone()))).collect())
    }

    /// Applies a change.
    pub(super) fn apply(&mut self, request: &RequestEvent) {
        let key = key(request);
        match &request.after {
            Some(after) => self.0.insert(key, Entry::new(after.clone())),
            None => self.0.remove(&key),
        };
    }
}

impl ObjectValues for Store {
    fn list(&self, resource: &ResourceType, namespace: Option<&str>) -> Vec<CelValue> {
        let resource = run_name(resource);
        let first = (resource.clone(), namespace.unwrap_or_default().to_owned(), String::new());
        self.0
            .range(first..)
            .take_while(|((known, in_namespace, _), _)| {
                *known == resource && namespace.is_none_or(|wanted| in_namespace == wanted)
            })
            .map(|(_, entry)| entry.value())
            .collect()
    }

    fn get(&self, resource: &ResourceType, namespace: &str, name: &str) -> Option<CelValue> {
        let key = (run_name(resource), namespace.to_owned(), name.to_owned());
        self.0.get(&key).map(Entry::value)
    }
}

fn key(request: &RequestEvent) -> Key {
    (normalised(&request.resource), request.namespace.clone(), request.name.clone())
}

/// Returns a resource's name without the dot before an empty group.
pub(super) fn normalised(resource: &str) -> String {
    resource.strip_suffix('.').unwrap_or(resource).to_owned()
}
