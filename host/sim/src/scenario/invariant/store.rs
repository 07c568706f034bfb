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
type Key<'r> = (&'r str, &'r str, &'r str);

/// An object, and its CEL value once an expression has read it.
struct Entry<'r> {
    object: &'r Value,
    value: RefCell<Option<CelValue>>,
}

impl<'r> Entry<'r> {
    fn new(object: &'r Value) -> Self {
        Self { object, value: RefCell::new(None) }
    }

    fn value(&self) -> CelValue {
        self.value.borrow_mut().get_or_insert_with(|| from_json(self.object.clone())).clone()
    }
}

/// The objects at one point of a run.
pub(super) struct Store<'r> {
    objects: BTreeMap<Key<'r>, Entry<'r>>,
    /// The names of the resources that the store contains; `None` for all.
    resources: Option<Vec<String>>,
}

impl<'r> Store<'r> {
    /// Returns the objects of some resources at the start of a run: those at its end, with all changes undone in reverse
    /// order.
    pub(super) fn at_start(run: &'r Run, resources: Option<Vec<String>>) -> Self {
        let mut store = Self { objects: BTreeMap::new(), resources };
        for stored in &run.objects {
            let key = (normalised(&stored.resource), stored.namespace.as_str(), stored.name.as_str());
            store.put(key, Some(&stored.object));
        }
        for event in run.events.iter().rev() {
            if let EventKind::Request(request) = &event.kind
                && request.changed
            {
                store.put(key(request), request.before.as_deref());
            }
        }
        store
    }

    /// Applies a change.
    pub(super) fn apply(&mut self, request: &'r RequestEvent) {
        self.put(key(request), request.after.as_deref());
    }

    fn put(&mut self, key: Key<'r>, object: Option<&'r Value>) {
        if self.resources.as_ref().is_some_and(|resources| !resources.iter().any(|known| known == key.0)) {
            return;
        }
        match object {
            Some(object) => self.objects.insert(key, Entry::new(object)),
            None => self.objects.remove(&key),
        };
    }
}

impl ObjectValues for Store<'_> {
    fn list(&self, resource: &ResourceType, namespace: Option<&str>) -> Vec<CelValue> {
        let resource = run_name(resource);
        let first: Key<'_> = (&resource, namespace.unwrap_or_default(), "");
        self.objects
            .range(first..)
            .take_while(|((known, in_namespace, _), _)| {
                *known == resource && namespace.is_none_or(|wanted| *in_namespace == wanted)
            })
            .map(|(_, entry)| entry.value())
            .collect()
    }

    fn get(&self, resource: &ResourceType, namespace: &str, name: &str) -> Option<CelValue> {
        let resource = run_name(resource);
        let key: Key<'_> = (&resource, namespace, name);
        self.objects.get(&key).map(Entry::value)
    }
}

fn key(request: &RequestEvent) -> Key<'_> {
    (normalised(&request.resource), &request.namespace, &request.name)
}

/// Returns a resource's name without the dot before an empty group.
pub(super) fn normalised(resource: &str) -> &str {
    resource.strip_suffix('.').unwrap_or(resource)
}
