use crate::{Describe, Object};

/// A plugin that computes the values of an index ([`Index::computed`](crate::Index::computed)).
pub trait Indexer: Describe + Default + 'static {
    /// The values under which the object is found in this index; empty for none, duplicates count once.
    ///
    /// Must depend on the object alone: the host calls it once per state of each object and keeps the result. Nothing but the
    /// log may be used. A panic leaves the object out of the index, with a warning, until it changes.
    fn values(&self, index: &str, object: &Object) -> Vec<String>;
}
