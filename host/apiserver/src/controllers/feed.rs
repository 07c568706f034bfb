use std::collections::HashMap;
use std::sync::Arc;

use super::Change;
use crate::registry::Endpoint;
use crate::server::State;
use crate::storage::{EventKind, Stored, Table, TableName};

/// At most so many events of a table are read at a time.
const BATCH: usize = 1024;

/// Reads the changes of all tables, each once and in order. A table whose history moved on too far is listed again, and
/// what it no longer has is reported as gone.
#[derive(Default)]
pub(super) struct Feed {
    tables: HashMap<TableName, Position>,
}

struct Position {
    table: Arc<Table>,
    /// None before the first list.
    revision: Option<u64>,
    known: HashMap<Key, Arc<Stored>>,
}

type Key = (Box<str>, Box<str>);

impl Feed {
    /// Passes on what is new. Whether there was anything.
    pub(super) fn read(&mut self, state: &State, show: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>)) -> bool {
        let endpoints = state.registry().resources();
        let mut any = false;
        for endpoint in &endpoints {
            let resource = &endpoint.resource;
            if resource.rules.review {
                continue;
            }
            let name = (resource.group.clone(), resource.names.plural.clone());
            let position = self.tables.entry(name).or_insert_with(|| Position::new(&resource.table));
            if !Arc::ptr_eq(&position.table, &resource.table) {
                // The CRD was deleted and created again.
                position.replace(endpoint, Vec::new(), 0, show);
                *position = Position::new(&resource.table);
            }
            any |= position.read(endpoint, show);
        }
        any
    }
}

impl Position {
    fn new(table: &Arc<Table>) -> Self {
        Self { table: Arc::clone(table), revision: None, known: HashMap::new() }
    }

    fn read(&mut self, endpoint: &Arc<Endpoint>, show: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>)) -> bool {
        let batch = self.revision.and_then(|revision| self.table.events_after(revision, BATCH).ok());
        let Some(batch) = batch else {
            let (objects, revision) = self.table.list(None);
            return self.replace(endpoint, objects, revision, show);
        };
        self.revision = Some(batch.complete_to);
        for event in &batch.events {
            let object = &event.object;
            if event.kind == EventKind::Deleted {
                self.known.remove(&key(object));
                show(endpoint, Change::Gone(object));
            } else {
                self.known.insert(key(object), Arc::clone(object));
                show(endpoint, Change::Present(object));
            }
        }
        !batch.events.is_empty()
    }

    fn replace(
        &mut self,
        endpoint: &Arc<Endpoint>,
        objects: Vec<Arc<Stored>>,
        revision: u64,
        show: &mut dyn FnMut(&Arc<Endpoint>, Change<'_>),
    ) -> bool {
        self.revision = Some(revision);
        let mut before = std::mem::take(&mut self.known);
        let mut any = false;
        for object in objects {
            let old = before.remove(&key(&object));
            if let Some(old) = old.as_ref().filter(|old| old.uid != object.uid) {
                show(endpoint, Change::Gone(old));
            }
            show(endpoint, Change::Present(&object));
            self.known.insert(key(&object), object);
            any = true;
        }
        for gone in before.values() {
            show(endpoint, Change::Gone(gone));
            any = true;
        }
        any
    }
}

fn key(object: &Stored) -> Key {
    (object.namespace.clone(), object.name.clone())
}
