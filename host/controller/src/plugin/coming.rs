//! What is on its way to being the version that runs.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedRwLockWriteGuard;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::directory::PluginFiles;
use crate::lifecycle::backoff;
use crate::load::{LoadProblem, Loaded};
use crate::version::Version;

/// The gate while no worker is inside a reconcile.
pub(super) type ClosedGate = OwnedRwLockWriteGuard<Option<Arc<Version>>>;

/// A version that waits for the workers to finish what they hold. Meanwhile the task goes on dispatching, because
/// nothing upstream of the queue may wait for a guest.
pub(super) struct Swap {
    pub(super) version: Version,
    pub(super) gate: Pin<Box<dyn Future<Output = ClosedGate> + Send>>,
}

pub(super) type Loading = JoinHandle<Result<Loaded, LoadProblem>>;

/// One of them at a time.
#[derive(Default)]
pub(super) struct Coming {
    stage: Stage,
    /// How often these files could not be loaded for a reason that may pass.
    postponed: u32,
}

#[derive(Default)]
enum Stage {
    #[default]
    Nothing,
    Loading(PluginFiles, Loading),
    Swapping(Box<Swap>),
    Postponed(PluginFiles, Instant),
}

pub(super) enum Arrival {
    /// The end of a load, and of which files.
    Loaded(PluginFiles, Result<Loaded, LoadProblem>),
    /// No worker is inside a reconcile any more.
    Drained(Box<Version>, ClosedGate),
    /// It is time to try these files again.
    Again(PluginFiles),
}

impl Coming {
    /// Gives up what is on its way: the files have changed again, or nothing is wanted any more.
    pub(super) fn abandon(&mut self) {
        if let Stage::Loading(_, loading) = std::mem::take(&mut self.stage) {
            loading.abort();
        }
        self.postponed = 0;
    }

    pub(super) fn load(&mut self, files: PluginFiles, loading: Loading) {
        self.stage = Stage::Loading(files, loading);
    }

    pub(super) fn swap(&mut self, swap: Swap) {
        self.postponed = 0;
        self.stage = Stage::Swapping(Box::new(swap));
    }

    /// Has the files loaded again later, and answers after how long.
    pub(super) fn postpone(&mut self, files: PluginFiles) -> Duration {
        let wait = backoff::wait(self.postponed, rand::random());
        self.postponed = self.postponed.saturating_add(1);
        self.stage = Stage::Postponed(files, Instant::now() + wait);
        wait
    }

    /// What comes next; never, while nothing is on its way. Cancellation safe.
    pub(super) async fn next(&mut self) -> Arrival {
        match &mut self.stage {
            Stage::Nothing => pending().await,
            Stage::Loading(_, loading) => {
                let outcome = loading.await;
                let outcome = outcome.unwrap_or_else(|error| Err(LoadProblem::Internal(error.to_string())));
                let Stage::Loading(files, _) = std::mem::take(&mut self.stage) else { unreachable!() };
                Arrival::Loaded(files, outcome)
            }
            Stage::Swapping(swap) => {
                let gate = swap.gate.as_mut().await;
                let Stage::Swapping(swap) = std::mem::take(&mut self.stage) else { unreachable!() };
                Arrival::Drained(Box::new(swap.version), gate)
            }
            Stage::Postponed(_, at) => {
                sleep_until(*at).await;
                let Stage::Postponed(files, _) = std::mem::take(&mut self.stage) else { unreachable!() };
                Arrival::Again(files)
            }
        }
    }
}
