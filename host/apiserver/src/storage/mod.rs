//! The stored objects: a table for each resource, with the history that watches are served from, and one revision counter
//! for all tables, as in etcd.
//!
//! Invariants:
//! 1. A write gets its revision while its table is locked for writing. A read of a table at revision `r` therefore sees
//!    every write to the table up to `r`, and the history is ordered by revision.
//! 2. Stored objects and events are immutable and shared.
//! 3. Each [`ChangeLog`] receives a change while the change's table is locked for writing. Whatever a write depends on is
//!    therefore recorded before the write.
//! 4. Whoever locks several tables locks that of Namespaces first.

mod change_log;
mod event;
mod history;
mod journal;
mod object;
mod stored_state;
mod table;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::watch;

pub(crate) use change_log::ChangeLog;
pub(crate) use event::{Event, EventKind};
pub(crate) use history::HistoryLimits;
pub(crate) use journal::{Journal, JournalEntry};
pub(crate) use object::{ObjectDraft, Owner, StoredObject};
pub(crate) use stored_state::StoredState;
pub(crate) use table::{Table, WatchCut, WriteError};

/// The group and plural name of a resource, which identify its table.
pub(crate) type TableName = (String, String);

/// The counter that every write to any table increments.
#[derive(Debug)]
pub(crate) struct Revision {
    counter: AtomicU64,
    changed: watch::Sender<u64>,
}

impl Revision {
    fn starting_at(first: u64) -> Self {
        // Never 0: a resourceVersion of 0 means "any version" in requests.
        let first = first.max(1);
        Self { counter: AtomicU64::new(first), changed: watch::Sender::new(first) }
    }

    /// Returns the revision of the last write.
    pub(crate) fn current(&self) -> u64 {
        self.counter.load(Ordering::Acquire)
    }

    fn next(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn announce(&self, revision: u64) {
        self.changed.send_replace(revision);
    }
}

/// All tables.
#[derive(Debug)]
pub(crate) struct Storage {
    revision: Arc<Revision>,
    limits: HistoryLimits,
    /// Receive every change; usually none.
    logs: Vec<Arc<dyn ChangeLog>>,
    tables: RwLock<BTreeMap<TableName, Arc<Table>>>,
}

impl Storage {
    /// Creates empty storage whose revision is `first`.
    pub(crate) fn new(limits: HistoryLimits, first: u64) -> Self {
        let revision = Arc::new(Revision::starting_at(first));
        Self { revision, limits, logs: Vec::new(), tables: RwLock::default() }
    }

    /// Sends every change to `logs`. Called before the first table is created.
    pub(crate) fn logged_to(self, logs: Vec<Arc<dyn ChangeLog>>) -> Self {
        Self { logs, ..self }
    }

    /// Returns the table of a resource, which is created on the first call.
    pub(crate) fn table(&self, group: &str, plural: &str) -> Arc<Table> {
        let name = (group.to_owned(), plural.to_owned());
        if let Some(table) = self.tables.read().get(&name) {
            return Arc::clone(table);
        }
        let mut tables = self.tables.write();
        let table = tables.entry(name).or_insert_with_key(|name| {
            Arc::new(Table::new(name.clone(), Arc::clone(&self.revision), self.limits, self.logs.clone()))
        });
        Arc::clone(table)
    }

    /// Returns all tables.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.read().values().cloned().collect()
    }

    /// Removes a table whose resource is no longer served, with its objects.
    pub(crate) fn drop_table(&self, group: &str, plural: &str) {
        let mut tables = self.tables.write();
        if let Some(table) = tables.remove(&(group.to_owned(), plural.to_owned())) {
            // Before another table of this name can be created.
            table.detach();
        }
    }

    /// Returns the revision of the last write to any table.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.current()
    }

    /// Returns the revision of the write that was announced last. Each write is announced once, after its table has recorded it.
    pub(crate) fn announced(&self) -> u64 {
        *self.revision.changed.borrow()
    }

    /// Returns a receiver that is notified of every write to any table.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.changed.subscribe()
    }
}
