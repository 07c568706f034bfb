//! The steps between a successful load and the swap: the new version's indexes are computed while the running version works, and the
//! running version pauses only for a final pass over what changed meanwhile.
//!
//! ```text
//! indexing ──done──▶ draining ──no guest call runs──▶ catching up ──done──▶ ready
//!    ▲  │                                                 │ CATCH_UP_TIMEOUT is over, at most MAX_ROUNDS times
//!    └──│─────────────────────────────────────────────────┘
//!       └── no instance ──▶ failed; the load is retried later
//! ```
//!
//! While indexing and draining, the running version reconciles and receives changes. While catching up, nothing is dispatched, because a
//! change would then be in the running version's indexes but not in the new one's; notifications wait in their subscriptions.
//!
//! `PluginTask::swap`, in `installation`, then installs the version and decides what happens to the queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::running::SharedVersions;
use super::versions_write_guard::VersionsWriteGuard;
use crate::cache::indexer::NoInstance;
use crate::directory::PluginFiles;
use crate::load::LoadProblem;
use crate::load::version::Version;

/// How long the running version may be paused for index calls.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(1);
/// How often catching up may time out before the load is retried later.
const MAX_ROUNDS: u32 = 5;

/// A loaded version that is about to replace the running one.
pub(super) struct PendingSwap {
    pub(super) files: PluginFiles,
    pub(super) version: Version,
    running: SharedVersions,
    step: Step,
    rounds: u32,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum Step {
    Indexing(BoxFuture<Result<(), NoInstance>>),
    WaitingForCalls(BoxFuture<VersionsWriteGuard>),
    /// Yields `None` if indexing has to start over.
    CatchingUp(BoxFuture<Option<VersionsWriteGuard>>),
}

/// The result of one step of a swap.
pub(super) enum Progress {
    /// [`PendingSwap::pauses_dispatch`] changed.
    DispatchPauseChanged,
    /// The version can be installed.
    Ready(VersionsWriteGuard),
    /// The swap is given up, and the running version continues.
    Failed(LoadProblem),
}

impl PendingSwap {
    pub(super) fn new(files: PluginFiles, version: Version, running: SharedVersions) -> Self {
        let step = indexing(&version);
        Self { files, version, running, step, rounds: 0 }
    }

    /// Whether nothing may be dispatched to the running version.
    pub(super) fn pauses_dispatch(&self) -> bool {
        matches!(self.step, Step::CatchingUp(_))
    }

    /// Waits for the next progress. Must not be called again after `Ready` or `Failed`.
    ///
    /// # Cancellation safety
    /// Safe.
    pub(super) async fn next(&mut self) -> Progress {
        loop {
            match &mut self.step {
                Step::Indexing(indexed) => match indexed.await {
                    Ok(()) => {
                        let exclusive = VersionsWriteGuard::acquire(Arc::clone(&self.running));
                        self.step = Step::WaitingForCalls(Box::pin(exclusive));
                    }
                    Err(problem) => return Progress::Failed(problem.into()),
                },
                Step::WaitingForCalls(acquired) => {
                    let exclusive = acquired.await;
                    let views = Arc::clone(&self.version.views);
                    self.step = Step::CatchingUp(Box::pin(async move {
                        // If no instance can be created any more, the next round finds out.
                        let indexed = timeout(CATCH_UP_TIMEOUT, views.index_all()).await;
                        matches!(indexed, Ok(Ok(()))).then_some(exclusive)
                    }));
                    return Progress::DispatchPauseChanged;
                }
                Step::CatchingUp(caught_up) => {
                    if let Some(exclusive) = caught_up.await {
                        return Progress::Ready(exclusive);
                    }
                    self.rounds += 1;
                    if self.rounds == MAX_ROUNDS {
                        return Progress::Failed(LoadProblem::IndexesBehind { rounds: MAX_ROUNDS });
                    }
                    self.step = indexing(&self.version);
                    return Progress::DispatchPauseChanged;
                }
            }
        }
    }
}

fn indexing(version: &Version) -> Step {
    let views = Arc::clone(&version.views);
    Step::Indexing(Box::pin(async move { views.index_all().await }))
}

#[cfg(test)]
mod tests;
