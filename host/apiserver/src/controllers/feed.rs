//! The changes of all tables, for the controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Change;
use crate::registry::Endpoint;
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
        let endpoints = state.registry().preferred_endpoints();
        let (mut any, mut served) = (false, 0);
        for endpoint in &endpoints {
            let resource = &endpoint.resource;
            if resource.strategy.is_review {
                continue;
            }
            let name = (resource.group.clone(), resource.names.plural.clone());
            served += 1;
            let position = self.tables.entry(name).or_insert_with(|| Position::new(endpoint));
            if !Arc::ptr_eq(&position.table, &resource.table) {
                // The CRD was deleted and recreated.
                any |= position.finish(on_change);
                *position = Position::new(endpoint);
            }
            if !Arc::ptr_eq(&position.endpoint, endpoint) {
                position.endpoint = Arc::clone(endpoint);
            }
            any |= position.read(endpoint, on_change);
        }
        if self.tables.len() > served {
            // The table of a CRD that has no served version for now is still open.
            self.tables.retain(|_, position| {
                let is_closed = position.table.closed_token().is_cancelled();
                if is_closed {
                    any |= position.finish(on_change);
                }
                !is_closed
            });
        }
        any
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
