//! The trait of plugins that compute an index.

use crate::{Describe, Object};

/// A plugin that computes the values of an index ([`Index::computed`](crate::Index::computed)).
pub trait Indexer: Describe + Default + 'static {
    /// Returns the values under which the object is listed in this index: empty for none; duplicates count once.
    ///
    /// The result must depend on nothing but the object, because the host calls this once per state of each object and keeps the
    /// result. Only the log may be used. After a panic the object is missing from the index, with a warning in the log, until it
    /// changes.
    fn values(&self, index: &str, object: &Object) -> Vec<String>;
}
