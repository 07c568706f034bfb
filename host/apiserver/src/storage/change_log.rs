//! The interface through which others learn of changes of stored objects.

use std::fmt::Debug;
use std::sync::Arc;

use super::{Event, StoredObject, TableName};

/// Receives every change of the stored objects.
///
/// Tables call it while they are locked for writing. An implementation must return quickly and must not use the tables.
pub(crate) trait ChangeLog: Debug + Send + Sync {
    /// Whether the log reads the value of each object, which is then kept with the object.
    fn reads_values(&self) -> bool {
        false
    }

    /// Records a write of one object.
    fn written(&self, table: &Arc<TableName>, event: &Arc<Event>);

    /// Records that a table has these objects and no others since `revision`, which is later than their own.
    fn replaced(&self, table: &Arc<TableName>, objects: &[Arc<StoredObject>], revision: u64);
}
