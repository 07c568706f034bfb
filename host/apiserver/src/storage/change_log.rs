//! The interface through which changes of stored objects become durable.

use std::fmt::Debug;
use std::sync::Arc;

use super::{StoredObject, TableName};

/// Receives every change of the stored objects.
///
/// Tables call it while they are locked for writing. An implementation must return quickly and must not use the tables.
pub(crate) trait ChangeLog: Debug + Send + Sync {
    /// Records the new state of an object.
    fn stored(&self, table: &TableName, object: &Arc<StoredObject>);

    /// Records the deletion of an object. `last` is at the revision of the deletion.
    fn deleted(&self, table: &TableName, last: &StoredObject);

    /// Records that a table has no objects any more.
    fn cleared(&self, table: &TableName);
}
