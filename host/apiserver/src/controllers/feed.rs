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
    /// The registry of the last call, from which the tables are. Most changes do not change it.
    registry: Option<Arc<Registry>>,
    /// How many tables the registry does not serve.
    unserved: usize,
    /// The last announced write when all tables were read last; `None` if some may have more changes.
    read_to: Option<u64>,
}

struct Position {
    /// The endpoint that served the table last.
    endpoint: Arc<Endpoint>,
    /// Whether the registry serves the table.
    is_served: bool,
    table: Arc<Table>,
    /// The revision up to which changes were read; `None` before the first list.
    revision: Option<u64>,
    /// The last change of the table before it was read to its end. Most tables have not changed since.
    change: Option<u64>,
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
        // Read before the tables, so that a later write leads to another read.
        let announced = state.storage.announced();
        let registry = state.registry();
        let mut any = false;
        if self.registry.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &registry)) {
            any |= self.follow(&registry, on_change);
            self.registry = Some(registry);
            self.read_to = None;
        }
        if self.read_to != Some(announced) {
            let mut is_complete = true;
            for position in self.tables.values_mut().filter(|position| position.is_served) {
                any |= position.read(on_change);
                is_complete &= position.change.is_some();
            }
            self.read_to = is_complete.then_some(announced);
        }
        if self.unserved > 0 {
            // The table of a CRD that has no served version for now is still open.
            self.tables.retain(|_, position| {
                let is_closed = !position.is_served && position.table.closed_token().is_cancelled();
                if is_closed {
                    any |= position.finish(on_change);
                    self.unserved -= 1;
                }
                !is_closed
            });
        }
        any
    }

    /// Takes over the tables of the registry. Returns whether objects of a deleted CRD were reported.
    fn follow(&mut self, registry: &Registry, on_change: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>)) -> bool {
        let mut any = false;
        self.tables.values_mut().for_each(|position| position.is_served = false);
        for endpoint in registry.preferred_endpoints() {
            let resource = &endpoint.resource;
            if resource.strategy.is_review {
                continue;
            }
            let name = (resource.group.clone(), resource.names.plural.clone());
            let position = self.tables.entry(name).or_insert_with(|| Position::new(&endpoint));
            if !Arc::ptr_eq(&position.table, &resource.table) {
                // The CRD was deleted and recreated.
                any |= position.finish(on_change);
                *position = Position::new(&endpoint);
            }
            position.endpoint = endpoint;
            position.is_served = true;
        }
        self.unserved = self.tables.values().filter(|position| !position.is_served).count();
        any
    }
}

impl Position {
    fn new(endpoint: &Arc<Endpoint>) -> Self {
        Self {
            endpoint: Arc::clone(endpoint),
            is_served: true,
            table: Arc::clone(&endpoint.resource.table),
            revision: None,
            change: None,
            known: BTreeMap::new(),
        }
    }

    /// Reports all objects of a table that is no longer served as deleted.
    fn finish(&mut self, on_change: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>)) -> bool {
        self.replace(Vec::new(), 0, on_change)
    }

    fn read(&mut self, on_change: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>)) -> bool {
        // Read before the events, so that a later write leads to another read.
        let change = self.table.last_change();
        if self.change == Some(change) {
            return false;
        }
        let batch = self.revision.and_then(|revision| self.table.events_after(revision, BATCH_SIZE).ok());
        let is_full = batch.as_ref().is_some_and(|batch| batch.events.len() >= BATCH_SIZE);
        self.change = (!is_full).then_some(change);
        let Some(batch) = batch else {
            let (objects, revision) = self.table.list(None);
            return self.replace(objects, revision, on_change);
        };
        self.revision = Some(batch.complete_to);
        for event in &batch.events {
            let object = &event.object;
            if event.kind == EventKind::Deleted {
                self.known.remove(&key(object));
                on_change(&self.endpoint, Change::Deleted(object));
            } else {
                self.known.insert(key(object), Arc::clone(object));
                on_change(&self.endpoint, Change::Applied(object));
            }
        }
        !batch.events.is_empty()
    }

    fn replace(
        &mut self,
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
                on_change(&self.endpoint, Change::Deleted(old));
            }
            on_change(&self.endpoint, Change::Applied(&object));
            self.known.insert(key(&object), object);
            any = true;
        }
        for deleted in before.values() {
            on_change(&self.endpoint, Change::Deleted(deleted));
            any = true;
        }
        any
    }
}

fn key(object: &StoredObject) -> Key {
    (object.namespace.clone(), object.name.clone())
}
