//! The host's functions in a plugin: those of the bindings.

pub(crate) use crate::bindings::pilothouse::controller::{
    cache, changes, client, config, events, log, metrics, objects, queue,
};
pub(crate) use crate::bindings::wasi::clocks::wall_clock;

/// Returns the object that an export received.
pub(crate) fn exported_object(object: objects::Object) -> objects::Object {
    object
}

/// Returns the batch that an export received.
pub(crate) fn exported_batch(batch: &changes::Batch) -> &changes::Batch {
    batch
}
