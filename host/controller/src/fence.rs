use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keeps a version that was swapped out from writing: lowered at the swap, asked right before each request is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence(Arc<AtomicBool>);

impl Fence {
    /// From now on the version sends nothing.
    pub(crate) fn lower(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the version has been swapped out.
    pub(crate) fn is_down(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
