//! The changes of all tables, for the controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Change;
use crate::registry::{Endpoint, Registry};
use crate::state::State;
use crate::storage::{EventKind, StoredObject, Table, TableName};

/// The maximum number of events of a table read at a time.
const BATCH_SIZE: usize = 1024;

/// Reads the changes of all tables, each once and in order.
///
/// If the history of a table no longer contains the feed's position, the table is listed again, and objects that it no
/// longer contains are reported as deleted. The objects of a deleted CRD are reported as deleted, too.
#[derive(Default)]
pub(super) struct Feed {
    tables: BTreeMap<TableName, Position>,
    served: Option<Served>,
}

/// The endpoints that are read, one for each table.
struct Served {
    /// The snapshot that they are from. Most changes do not change the registry.
    registry: Arc<Registry>,
    endpoints: Vec<(TableName, Arc<Endpoint>)>,
}

struct Position {
    /// The endpoint that served the table last.
    endpoint: Arc<Endpoint>,
    table: Arc<Table>,
    /// The revision up to which changes were read; `None` before the first list.
    revision: Option<u64>,
    known: BTreeMap<Key, Arc<StoredObject>>,
}

type Key = (Box<str>, Box<str>);

impl Feed {
    /// Calls `on_change` for each new change. Returns whether there was any.
    pub(super) fn read(
        &mut self,
        state: &State,
        on_change: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>),
    ) -> bool {
        let registry = state.registry();
        let served = match self.served.take() {
            Some(served) if Arc::ptr_eq(&served.registry, &registry) => served,
            _ => Served::of(registry),
        };
        let mut any = false;
        for (name, endpoint) in &served.endpoints {
            if !self.tables.contains_key(name) {
                self.tables.insert(name.clone(), Position::new(endpoint));
            }
            let Some(position) = self.tables.get_mut(name) else { continue };
            if !Arc::ptr_eq(&position.table, &endpoint.resource.table) {
                // The CRD was deleted and recreated.
                any |= position.finish(on_change);
                *position = Position::new(endpoint);
            }
            if !Arc::ptr_eq(&position.endpoint, endpoint) {
                position.endpoint = Arc::clone(endpoint);
            }
            any |= position.read(endpoint, on_change);
        }
        if self.tables.len() > served.endpoints.len() {
            // The table of a CRD that has no served version for now is still open.
            self.tables.retain(|_, position| {
                let is_closed = position.table.closed_token().is_cancelled();
                if is_closed {
                    any |= position.finish(on_change);
                }
                !is_closed
            });
        }
        self.served = Some(served);
        any
    }
}

impl Served {
    fn of(registry: Arc<Registry>) -> Self {
        let endpoints = registry.preferred_endpoints().into_iter();
        let endpoints = endpoints.filter(|endpoint| !endpoint.resource.strategy.is_review).map(|endpoint| {
            let name = (endpoint.resource.group.clone(), endpoint.resource.names.plural.clone());
            (name, endpoint)
        });
        Self { endpoints: endpoints.collect(), registry }
    }
}

impl Position {
    fn new(endpoint: &Arc<Endpoint>) -> Self {
        Self {
            endpoint: Arc::clone(endpoint),
            table: Arc::clone(&endpoint.resource.table),
            revision: None,
            known: BTreeMap::new(),
        }
    }

    /// Reports all objects of a table that is no longer served as deleted.
    fn finish(&mut self, on_change: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>)) -> bool {
        let endpoint = Arc::clone(&self.endpoint);
        self.replace(&endpoint, Vec::new(), 0, on_change)
    }

    fn read(
        &mut self,
        endpoint: &Arc<Endpoint>,
        on_change: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>),
    ) -> bool {
        let batch = self.revision.and_then(|revision| self.table.events_after(revision, BATCH_SIZE).ok());
        let Some(batch) = batch else {
            let (objects, revision) = self.table.list(None);
            return self.replace(endpoint, objects, revision, on_change);
        };
        self.revision = Some(batch.complete_to);
        for event in &batch.events {
            let object = &event.object;
            if event.kind == EventKind::Deleted {
                self.known.remove(&key(object));
                on_change(endpoint, Change::Deleted(object));
            } else {
                self.known.insert(key(object), Arc::clone(object));
                on_change(endpoint, Change::Applied(object));
            }
        }
        !batch.events.is_empty()
    }

    fn replace(
        &mut self,
        endpoint: &Arc<Endpoint>,
        objects: Vec<Arc<StoredObject>>,
        revision: u64,
        on_change: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>),
    ) -> bool {
        self.revision = Some(revision);
        let mut before = std::mem::take(&mut self.known);
        let mut any = false;
        for object in objects {
            let old = before.remove(&key(&object));
            if let Some(old) = old.as_ref().filter(|old| old.uid != object.uid) {
                on_change(endpoint, Change::Deleted(old));
            }
            on_change(endpoint, Change::Applied(&object));
            self.known.insert(key(&object), object);
            any = true;
        }
        for deleted in before.values() {
            on_change(endpoint, Change::Deleted(deleted));
            any = true;
        }
        any
    }
}

fn key(object: &StoredObject) -> Key {
    (object.namespace.clone(), object.name.clone())
}
