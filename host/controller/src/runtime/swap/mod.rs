//! What happens between the end of a load and the swap: the new version's indexes are brought up to date, and the gate is
//! closed for the last of them only.
//!
//! ```text
//! indexing ──done──▶ closing ──no guest call runs──▶ catching up ──done──▶ ready
//!    ▲  │ no instance: the load is postponed             │ CATCH_UP is over, at most ROUNDS times
//!    └──┴────────────────────────────────────────────────┘
//! ```
//!
//! The running version works and is dispatched to in the first two steps. In the third nothing is dispatched, so that no
//! change is offered to the running version's indexes alone; notifications wait in their subscriptions meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedRwLockWriteGuard;
use tokio::time::timeout;

use super::{DRAIN, Gate};
use crate::cache::indexer::NoInstance;
use crate::directory::PluginFiles;
use crate::load::LoadProblem;
use crate::load::version::Version;

/// How long the gate stays closed for index calls.
const CATCH_UP: Duration = Duration::from_secs(1);
/// How often the gate is closed in vain before the load is postponed.
const ROUNDS: u32 = 5;

/// The gate while no guest call of the running version is under way. Dropping it lets that version go on.
pub(super) struct ClosedGate(OwnedRwLockWriteGuard<Option<Arc<Version>>>);

impl ClosedGate {
    /// Waits until no guest call is under way, then for the requests that calls have left behind, up to [`DRAIN`].
    pub(super) async fn close(gate: Gate) -> Self {
        let closed = Self(gate.write_owned().await);
        if let Some(running) = closed.0.as_ref() {
            running.fence.close();
            if timeout(DRAIN, running.fence.drained()).await.is_err() {
                tracing::warn!(
                    version = running.descriptor.version,
                    "a write of the version before has had no answer for {} s; the new one does not wait for it",
                    DRAIN.as_secs()
                );
            }
        }
        closed
    }

    /// Puts a version in the place of the one that runs, which is retired, and opens the gate.
    pub(super) fn install(mut self, version: Arc<Version>) {
        if let Some(old) = self.0.replace(version) {
            old.retire();
        }
    }
}

impl Drop for ClosedGate {
    fn drop(&mut self) {
        // The one that runs from now on: a new version, or that of before.
        if let Some(running) = self.0.as_ref() {
            running.fence.open();
        }
    }
}

/// A loaded version on its way to being the one that runs.
pub(super) struct Swap {
    pub(super) files: PluginFiles,
    pub(super) version: Version,
    gate: Gate,
    step: Step,
    rounds: u32,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum Step {
    Indexing(Boxed<Result<(), NoInstance>>),
    Closing(Boxed<ClosedGate>),
    /// `None` where the time was over.
    CatchingUp(Boxed<Option<ClosedGate>>),
}

/// What a swap has come to.
pub(super) enum Progress {
    /// Dispatching stops, or goes on: [`Swap::pauses_dispatch`] has changed.
    Paused,
    Ready(ClosedGate),
    /// The running version goes on.
    Failed(LoadProblem),
}

impl Swap {
    pub(super) fn new(files: PluginFiles, version: Version, gate: Gate) -> Self {
        let step = indexing(&version);
        Self { files, version, gate, step, rounds: 0 }
    }

    /// Whether nothing may be dispatched to the running version.
    pub(super) fn pauses_dispatch(&self) -> bool {
        matches!(self.step, Step::CatchingUp(_))
    }

    /// What comes next. Cancellation safe. Not to be called again after it is ready or has failed.
    pub(super) async fn next(&mut self) -> Progress {
        loop {
            match &mut self.step {
                Step::Indexing(indexed) => match indexed.await {
                    Ok(()) => self.step = Step::Closing(Box::pin(ClosedGate::close(Arc::clone(&self.gate)))),
                    Err(problem) => return Progress::Failed(problem.into()),
                },
                Step::Closing(closed) => {
                    let gate = closed.await;
                    let views = Arc::clone(&self.version.views);
                    self.step = Step::CatchingUp(Box::pin(async move {
                        // That no instance can be made any more is found out by the next round.
                        matches!(timeout(CATCH_UP, views.index_all()).await, Ok(Ok(()))).then_some(gate)
                    }));
                    return Progress::Paused;
                }
                Step::CatchingUp(caught_up) => {
                    if let Some(gate) = caught_up.await {
                        return Progress::Ready(gate);
                    }
                    self.rounds += 1;
                    if self.rounds == ROUNDS {
                        return Progress::Failed(LoadProblem::IndexesBehind { rounds: ROUNDS });
                    }
                    self.step = indexing(&self.version);
                    return Progress::Paused;
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
