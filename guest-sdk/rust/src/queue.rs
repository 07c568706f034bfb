//! The plugin's work queue.

use std::borrow::Cow;
use std::time::Duration;

use crate::ObjectKey;
use crate::host::queue as wit;
use crate::reconciler::milliseconds;

/// Queues work for objects of one target watch: see [`Context::queue`](crate::Context::queue). The objects need not exist.
///
/// For a watch that is not a target watch the methods trap, with a message that lists the target watches.
#[derive(Clone, Debug)]
pub struct Queue<'c> {
    watch: Cow<'c, str>,
}

impl<'c> Queue<'c> {
    pub(crate) fn new(watch: Cow<'c, str>) -> Self {
        Self { watch }
    }

    /// Queues the object now. The queue holds a key at most once; adding the key that is being reconciled runs it once more
    /// afterwards.
    pub fn add(&self, key: &ObjectKey) {
        wit::add(&self.watch, key);
    }

    /// Queues the object after a delay of at most about 24 days. Of several delays the earliest applies.
    pub fn add_after(&self, key: &ObjectKey, delay: Duration) {
        wit::add_after(&self.watch, key, milliseconds(delay));
    }
}
