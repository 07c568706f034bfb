//! The stored objects: a table for each resource, with the history that watches are served from, and one revision counter
//! for all tables, as in etcd.
//!
//! Invariants:
//! 1. A write gets its revision while its table is locked for writing. A read of a table at revision `r` therefore sees
//!    every write to the table up to `r`, and the history is ordered by revision.
//! 2. Stored objects and events are immutable and shared.
//! 3. A [`ChangeLog`] receives each change while its table is locked for writing. Whatever a write depends on is therefore
//!    recorded before the write.

mod change_log;
mod event;
mod history;
mod object;
mod stored_state;
mod table;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

pub(crate) use change_log::ChangeLog;
pub(crate) use event::{Event, EventKind};
pub(crate) use history::HistoryLimits;
pub(crate) use object::{Owner, StoredObject, UnstoredObject};
pub(crate) use stored_state::StoredState;
pub(crate) use table::{Table, WatchCut, WriteError};

/// The group and plural name of a resource, which identify its table.
pub(crate) type TableName = (String, String);

/// The counter that every write to any table increments.
#[derive(Debug)]
pub(crate) struct Revision {
    counter: AtomicU64,
    changed: watch::Sender<u64>,
    /// The writes that nobody has taken yet; unset if writes are not recorded.
    journal: OnceLock<Mutex<Vec<JournalEntry>>>,
}

/// A write, with the resource it was to.
pub(crate) type JournalEntry = (Arc<TableName>, Arc<Event>);

impl Revision {
    fn starting_at(first: u64) -> Self {
        // Never 0: a resourceVersion of 0 means "any version" in requests.
        let first = first.max(1);
        Self { counter: AtomicU64::new(first), changed: watch::Sender::new(first), journal: OnceLock::new() }
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

    fn record(&self, table: &Arc<TableName>, event: &Arc<Event>) {
        if let Some(journal) = self.journal.get() {
            journal.lock().push((Arc::clone(table), Arc::clone(event)));
        }
    }
}

/// All tables.
#[derive(Debug)]
pub(crate) struct Storage {
    revision: Arc<Revision>,
    limits: HistoryLimits,
    /// Receives every change; `None` if objects are kept in memory only.
    log: Option<Arc<dyn ChangeLog>>,
    tables: RwLock<BTreeMap<TableName, Arc<Table>>>,
}

impl Storage {
    /// Creates empty storage whose revision is `first`.
    pub(crate) fn new(limits: HistoryLimits, first: u64) -> Self {
        let revision = Arc::new(Revision::starting_at(first));
        Self { revision, limits, log: None, tables: RwLock::default() }
    }

    /// Sends every change to `log`. Called before the first table is created.
    pub(crate) fn logged_to(self, log: Option<Arc<dyn ChangeLog>>) -> Self {
        Self { log, ..self }
    }

    /// Returns the table of a resource, which is created on the first call.
    pub(crate) fn table(&self, group: &str, plural: &str) -> Arc<Table> {
        let name = (group.to_owned(), plural.to_owned());
        if let Some(table) = self.tables.read().get(&name) {
            return Arc::clone(table);
        }
        let mut tables = self.tables.write();
        let table = tables.entry(name).or_insert_with_key(|name| {
            Arc::new(Table::new(name.clone(), Arc::clone(&self.revision), self.limits, self.log.clone()))
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

    /// Records every write from now on, until it is [taken](Self::take_journal). The caller bounds the memory by taking them.
    pub(crate) fn start_journal(&self) {
        let _ = self.revision.journal.set(Mutex::default());
    }

    /// Takes the recorded writes, in order; none if they are not recorded.
    pub(crate) fn take_journal(&self) -> Vec<JournalEntry> {
        self.revision.journal.get().map(|journal| std::mem::take(&mut *journal.lock())).unwrap_or_default()
    }

    /// Returns a receiver that is notified of every write to any table.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.changed.subscribe()
    }
}
