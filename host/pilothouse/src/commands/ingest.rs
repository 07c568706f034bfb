//! The thread on which all watches are read.
//!
//! A watch that comes in many small chunks, as real API servers write them, passes from its connection's task to its informer
//! chunk by chunk. Between threads each hand-over wakes a sleeping thread, which costs several times as much as the reading;
//! on one thread the tasks take turns. One is enough: it reads some hundred thousand events a second.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Ends with its owner, and its informers with it.
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

    pub(super) fn runtime(&self) -> Handle {
        self.runtime.clone()
    }
}
