//! The state of all tables at one revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Storage, StoredObject, TableName};
use crate::status::Status;

/// How often a state is read before a history is considered too short.
const MAX_ATTEMPTS: usize = 100;

/// The objects of all tables at one revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredState {
    pub revision: u64,
    /// The objects of each table that has any.
    pub tables: BTreeMap<TableName, Vec<Arc<StoredObject>>>,
}

impl StoredState {
    /// Returns the objects of a table.
    pub(crate) fn objects(&self, table: &TableName) -> &[Arc<StoredObject>] {
        self.tables.get(table).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of objects in all tables.
    pub(crate) fn count(&self) -> usize {
        self.tables.values().map(Vec::len).sum()
    }

    /// Shares the memory of those objects that did not change since.
    #[cfg(any(test, feature = "persistence"))]
    pub(crate) fn share_unchanged(&mut self, storage: &Storage) {
        for table in storage.tables() {
            for object in self.tables.get_mut(table.name()).into_iter().flatten() {
                let current = table.get(&object.namespace, &object.name);
                let is_same = |current: &Arc<StoredObject>| {
                    current.revision == object.revision && current.body() == object.body()
                };
                if let Some(current) = current.filter(is_same) {
                    *object = current;
                }
            }
        }
    }
}

impl Storage {
    /// Returns the state of all tables at the current revision, or `None` if concurrent writes push it out of a table's
    /// history each time.
    ///
    /// No lock covers all tables. Each table is read after the others as it was at the same revision.
    pub(crate) fn state(&self) -> Option<StoredState> {
        (0..MAX_ATTEMPTS).find_map(|_| self.state_at(self.revision()))
    }

    fn state_at(&self, revision: u64) -> Option<StoredState> {
        let mut state = StoredState { revision, tables: BTreeMap::new() };
        for table in self.tables() {
            let objects = table.list_at(None, revision).ok()?;
            if !objects.is_empty() {
                state.tables.insert(table.name().clone(), objects);
            }
        }
        Some(state)
    }

    /// Puts the objects of `state` into the tables, which are empty, as if they had been there from the start: without an event, and with their
    /// resourceVersions.
    pub(crate) fn fill(&self, state: &StoredState) {
        for ((group, plural), objects) in &state.tables {
            self.table(group, plural).fill(objects);
        }
    }

    /// Replaces all objects of all tables by those of `state`, in one step: all tables are locked meanwhile. Objects keep their
    /// resourceVersions, and the history begins anew. Open watches end, with an ERROR event if there is an error.
    ///
    /// The caller ensures that no table is dropped meanwhile.
    pub(crate) fn replace_all(&self, state: &StoredState, watch_error: Option<&Status>) {
        for (group, plural) in state.tables.keys() {
            self.table(group, plural);
        }
        let mut tables = self.tables();
        // A creation locks its Namespace before its own table.
        tables.sort_by_key(|table| !table.name().0.is_empty() || table.name().1 != "namespaces");
        let mut locked: Vec<_> = tables.iter().map(|table| (table.name(), table.lock_write())).collect();
        let revision = self.revision.next();
        for (name, table) in &mut locked {
            table.replace(state.objects(name), revision, watch_error.cloned());
        }
        self.revision.announce(revision);
    }
}
