//! Changes that were not committed yet, merged by object.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::storage::{StoredObject, TableName};

/// The namespace and name of an object.
pub(super) type Key = (Box<str>, Box<str>);

/// Changes of any number of tables. Only the last change of each object is kept, so that the size is bounded by the number of
/// objects and not by the number of writes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The highest revision of a change, these ones or earlier ones.
    pub(super) revision: u64,
    pub(super) tables: BTreeMap<TableName, TableChanges>,
}

/// Changes of one table.
#[derive(Debug, Default)]
pub(super) struct TableChanges {
    /// Whether the table lost all its objects before the other changes.
    pub(super) is_cleared: bool,
    /// The last state of each changed object; `None` for a deleted one.
    pub(super) objects: BTreeMap<Key, Option<Arc<StoredObject>>>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Adds the new state of an object.
    pub(super) fn stored(&mut self, table: &TableName, object: &Arc<StoredObject>) {
        self.revision = self.revision.max(object.revision);
        self.table(table).objects.insert(key(object), Some(Arc::clone(object)));
    }

    /// Adds a deletion.
    pub(super) fn deleted(&mut self, table: &TableName, last: &StoredObject) {
        self.revision = self.revision.max(last.revision);
        self.table(table).objects.insert(key(last), None);
    }

    /// Adds the replacement of all objects of a table by these, at `revision`.
    pub(super) fn replaced(&mut self, table: &TableName, objects: &[Arc<StoredObject>], revision: u64) {
        self.revision = self.revision.max(revision);
        let objects = objects.iter().map(|object| (key(object), Some(Arc::clone(object)))).collect();
        *self.table(table) = TableChanges { is_cleared: true, objects };
    }

    fn table(&mut self, name: &TableName) -> &mut TableChanges {
        if !self.tables.contains_key(name) {
            self.tables.insert(name.clone(), TableChanges::default());
        }
        self.tables.get_mut(name).expect("a table that was just added")
    }
}

fn key(object: &StoredObject) -> Key {
    (object.namespace.clone(), object.name.clone())
}
