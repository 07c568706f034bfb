//! A change log in memory.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{ChangeLog, Event, StoredObject, TableName};

/// A write, with the resource it was to.
pub(crate) type JournalEntry = (Arc<TableName>, Arc<Event>);

/// The writes that nobody has taken yet. Whoever creates a journal bounds its memory by taking them.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: Mutex<Vec<JournalEntry>>,
}

impl Journal {
    /// Takes the recorded writes, in order.
    pub(crate) fn take(&self) -> Vec<JournalEntry> {
        std::mem::take(&mut *self.entries.lock())
    }
}

impl ChangeLog for Journal {
    fn reads_values(&self) -> bool {
        true
    }

    fn written(&self, table: &Arc<TableName>, event: &Arc<Event>) {
        self.entries.lock().push((Arc::clone(table), Arc::clone(event)));
    }

    /// Does nothing: a restored snapshot or a dropped table is no write of a client or controller.
    fn replaced(&self, _: &Arc<TableName>, _: &[Arc<StoredObject>], _: u64) {}
}
