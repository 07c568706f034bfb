//! The version that is being loaded, until it replaces the running one.

use std::future::pending;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::pending_swap::{PendingSwap, Progress};
use super::running::SharedVersions;
use super::versions_write_guard::VersionsWriteGuard;
use crate::config::canary_share::CanaryShare;
use crate::directory::PluginFiles;
use crate::lifecycle::backoff;
use crate::load::version::Version;
use crate::load::{LoadOutcome, LoadProblem};

/// The task of a load.
pub(super) type LoadTask = JoinHandle<Result<LoadOutcome, LoadProblem>>;

/// The version that is to run next, if any. A plugin has at most one.
#[derive(Default)]
pub(super) struct PendingVersion {
    stage: Stage,
    /// How often these files failed to load for a transient reason; determines the backoff.
    failures: u32,
}

#[derive(Default)]
enum Stage {
    #[default]
    None,
    Loading(PluginFiles, LoadTask),
    Swapping(Box<PendingSwap>),
    /// The keys of the canary change, or it ends, as soon as no guest call is under way.
    ChangingCanary(Option<CanaryShare>, BoxFuture<'static, VersionsWriteGuard>),
    RetryAt(PluginFiles, Instant),
}

/// What happened to the pending version.
pub(super) enum LoadEvent {
    /// The load of these files ended.
    Finished(PluginFiles, Result<LoadOutcome, LoadProblem>),
    /// The canary can be given these keys, or be ended: no guest call is under way.
    CanaryChange(Option<CanaryShare>, VersionsWriteGuard),
    /// The version can be installed: no guest call is under way any more, and its indexes are up to date.
    Ready(Box<Version>, VersionsWriteGuard),
    /// [`PendingVersion::pauses_dispatch`] changed.
    DispatchPauseChanged,
    /// The backoff is over: these files are to be loaded again.
    RetryDue(PluginFiles),
}

impl PendingVersion {
    /// Cancels the load or the swap, because the files changed again or were removed.
    pub(super) fn cancel(&mut self) {
        if let Stage::Loading(_, task) = std::mem::take(&mut self.stage) {
            task.abort();
        }
        self.failures = 0;
    }

    /// Whether the running versions change as soon as no guest call is under way. Such a change takes a bounded time. A load does not: it may
    /// wait for what the cluster or an operator has to provide.
    pub(super) fn is_changing_versions(&self) -> bool {
        match self.stage {
            Stage::None | Stage::Loading(..) | Stage::RetryAt(..) => false,
            Stage::Swapping(_) | Stage::ChangingCanary(..) => true,
        }
    }

    /// Waits for this load from now on.
    pub(super) fn load(&mut self, files: PluginFiles, task: LoadTask) {
        self.stage = Stage::Loading(files, task);
    }

    /// Drives this swap from now on.
    pub(super) fn swap(&mut self, swap: PendingSwap) {
        self.stage = Stage::Swapping(Box::new(swap));
    }

    /// Changes the keys of the canary, or ends it, as soon as no guest call is under way.
    pub(super) fn change_canary(&mut self, share: Option<CanaryShare>, running: SharedVersions) {
        self.stage = Stage::ChangingCanary(share, Box::pin(VersionsWriteGuard::acquire(running)));
    }

    /// Whether nothing may be dispatched to the running version.
    pub(super) fn pauses_dispatch(&self) -> bool {
        matches!(&self.stage, Stage::Swapping(swap) if swap.pauses_dispatch())
    }

    /// Schedules another load of the files, and returns the delay until then. `jitter` is from 0 to 1.
    pub(super) fn schedule_retry(&mut self, files: PluginFiles, jitter: f64) -> Duration {
        let delay = backoff::delay(self.failures, jitter);
        self.failures = self.failures.saturating_add(1);
        self.stage = Stage::RetryAt(files, Instant::now() + delay);
        delay
    }

    /// Waits for the next event; for ever while there is no pending version.
    ///
    /// # Cancellation safety
    /// Safe.
    pub(super) async fn next(&mut self) -> LoadEvent {
        match &mut self.stage {
            Stage::None => pending().await,
            Stage::Loading(_, task) => {
                let outcome = task.await;
                let outcome = outcome.unwrap_or_else(|error| Err(LoadProblem::Internal(error.to_string())));
                let Stage::Loading(files, _) = std::mem::take(&mut self.stage) else { unreachable!() };
                LoadEvent::Finished(files, outcome)
            }
            Stage::Swapping(swap) => {
                let progress = swap.next().await;
                if matches!(progress, Progress::DispatchPauseChanged) {
                    return LoadEvent::DispatchPauseChanged;
                }
                let Stage::Swapping(swap) = std::mem::take(&mut self.stage) else { unreachable!() };
                match progress {
                    Progress::Ready(exclusive) => {
                        self.failures = 0;
                        LoadEvent::Ready(Box::new(swap.version), exclusive)
                    }
                    Progress::Failed(problem) => LoadEvent::Finished(swap.files, Err(problem)),
                    Progress::DispatchPauseChanged => unreachable!(),
                }
            }
            Stage::ChangingCanary(_, acquired) => {
                let exclusive = acquired.await;
                let Stage::ChangingCanary(share, _) = std::mem::take(&mut self.stage) else { unreachable!() };
                LoadEvent::CanaryChange(share, exclusive)
            }
            Stage::RetryAt(_, at) => {
                sleep_until(*at).await;
                let Stage::RetryAt(files, _) = std::mem::take(&mut self.stage) else { unreachable!() };
                LoadEvent::RetryDue(files)
            }
        }
    }
}
