//! The thread that reads all watches.
//!
//! API servers write a watch in many small chunks, and each chunk passes from the connection's task to the informer's. If these tasks
//! run on different threads, each chunk wakes a sleeping thread, which costs several times as much as reading it. On one thread the
//! tasks take turns. One thread is enough: it reads a few hundred thousand events per second.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A single-threaded runtime on its own thread. Dropping this stops the runtime and all tasks on it.
pub(super) struct IngestThread {
    runtime: Handle,
    _stop: DropGuard,
}

impl IngestThread {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        std::thread::Builder::new()
            .name("ingest".to_owned())
            .spawn(move || runtime.block_on(stopped.cancelled()))?;
        Ok(Self { runtime: handle, _stop: stop.drop_guard() })
    }

    /// Returns a handle for spawning tasks on the thread.
    pub(super) fn runtime(&self) -> Handle {
        self.runtime.clone()
    }
}
