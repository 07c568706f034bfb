//! Charges the indexes that informers keep to the plugin that declares them.

use pilothouse_informer::IndexMemory;
use pilothouse_plugin::{HostMemory, HostMemoryKind};

/// The plugin's account of host memory, for its indexes of labels, annotations, owners and fields. All versions of the plugin share one, so that
/// an index is charged once, however many of its subscriptions have it.
///
/// An index is never refused, because it must have all objects. A load checks that the indexes fit, and what exceeds the limit later is missing
/// for everything else.
#[derive(Default)]
pub(crate) struct IndexAccount(HostMemory);

impl IndexAccount {
    pub(crate) fn new(memory: HostMemory) -> Self {
        Self(memory)
    }
}

impl IndexMemory for IndexAccount {
    fn grew(&self, bytes: usize) {
        self.0.add(HostMemoryKind::IndexValues, bytes);
    }

    fn shrank(&self, bytes: usize) {
        self.0.release(HostMemoryKind::IndexValues, bytes);
    }
}
