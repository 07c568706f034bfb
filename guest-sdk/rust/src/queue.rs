use std::time::Duration;

use crate::ObjectKey;
use crate::bindings::pilothouse::controller::queue as wit;
use crate::reconciler::milliseconds;

/// More work, for objects of one target watch. The objects need not exist.
///
/// A watch that is no target traps, with a message that lists the targets.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'c> {
    watch: &'c str,
}

impl<'c> Queue<'c> {
    pub(crate) fn new(watch: &'c str) -> Self {
        Self { watch }
    }

    /// Queues the object now, once however often it is added. The one being reconciled runs once more afterwards.
    pub fn add(&self, key: &ObjectKey) {
        wit::add(self.watch, key);
    }

    /// Queues the object after a time; of two delays the earlier wins. At most about 24 days.
    pub fn add_after(&self, key: &ObjectKey, delay: Duration) {
        wit::add_after(self.watch, key, milliseconds(delay));
    }
}
