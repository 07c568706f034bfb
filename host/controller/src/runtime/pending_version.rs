//! What is on its way to being the version that runs.

use std::future::pending;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::swap::{ClosedGate, Progress, Swap};
use crate::directory::PluginFiles;
use crate::lifecycle::backoff;
use crate::load::version::Version;
use crate::load::{LoadProblem, Loaded};

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
    /// No guest call is under way any more, and the version's indexes are up to date.
    Ready(Box<Version>, ClosedGate),
    /// Dispatching stops, or goes on.
    Paused,
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
        self.stage = Stage::Swapping(Box::new(swap));
    }

    /// Whether nothing may be dispatched to the version that runs.
    pub(super) fn pauses_dispatch(&self) -> bool {
        matches!(&self.stage, Stage::Swapping(swap) if swap.pauses_dispatch())
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
                let progress = swap.next().await;
                if matches!(progress, Progress::Paused) {
                    return Arrival::Paused;
                }
                let Stage::Swapping(swap) = std::mem::take(&mut self.stage) else { unreachable!() };
                match progress {
                    Progress::Ready(gate) => {
                        self.postponed = 0;
                        Arrival::Ready(Box::new(swap.version), gate)
                    }
                    Progress::Failed(problem) => Arrival::Loaded(swap.files, Err(problem)),
                    Progress::Paused => unreachable!(),
                }
            }
            Stage::Postponed(_, at) => {
                sleep_until(*at).await;
                let Stage::Postponed(files, _) = std::mem::take(&mut self.stage) else { unreachable!() };
                Arrival::Again(files)
            }
        }
    }
}
