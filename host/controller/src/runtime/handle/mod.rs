//! The host's handle of a plugin's task, and the status that it shows.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_informer::Subscription;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::running::Canary;
use super::{DesiredFiles, PluginTask, RecoveryState, ReloadOptions};
use crate::guest_host::PluginServices;
use crate::lifecycle::{HostMemoryStatus, Lifecycle, PluginState, PluginStatus, StateChange, WaitingFor};
use crate::load::LoadServices;
use crate::load::version::{Version, WatchRoute};
use crate::rollout::CanaryStatus;

/// The host's handle of a plugin's task.
pub(crate) struct PluginHandle {
    desired_files: watch::Sender<DesiredFiles>,
    status_source: Arc<PluginStatusSource>,
    task: JoinHandle<()>,
}

/// A plugin's status and gauges.
pub(crate) struct PluginStatusSource {
    lifecycle: Lifecycle,
    pub(super) running_status: Arc<RunningVersionStatus>,
    pub(super) plugin: PluginServices,
    desired_files: watch::Receiver<DesiredFiles>,
}

/// What `status` and `explain` read of a plugin's task, beside the lifecycle: the running versions, the problem of a CRD, and what a load waits
/// for.
#[derive(Default)]
pub(super) struct RunningVersionStatus {
    /// The version's subscriptions, by watch. Weak, because they must end with the version.
    subscriptions: Mutex<Vec<(Arc<str>, Weak<Subscription>)>>,
    /// The version, weak for the same reason.
    version: Mutex<Weak<Version>>,
    /// The canary beside it, weak for the same reason.
    canary: Mutex<Weak<Canary>>,
    /// The deleted CRD that is the cause of the watch errors.
    crd_problem: Mutex<Option<String>>,
    /// What the current or last load waits for.
    load_waits_for: Mutex<Option<WaitingFor>>,
}

impl RunningVersionStatus {
    /// Reports on this version from now on.
    pub(super) fn set_version(&self, version: &Arc<Version>) {
        let subscription =
            |route: &WatchRoute| (Arc::clone(&route.watch), Arc::downgrade(&route.subscribed.subscription));
        *self.subscriptions.lock() = version.routes.iter().map(subscription).collect();
        *self.version.lock() = Arc::downgrade(version);
        self.set_canary(None);
        *self.crd_problem.lock() = None;
    }

    /// Reports on this canary from now on; on none for `None`.
    pub(super) fn set_canary(&self, canary: Option<&Arc<Canary>>) {
        *self.canary.lock() = canary.map(Arc::downgrade).unwrap_or_default();
    }

    /// The canary that runs; `None` without one.
    pub(super) fn canary(&self) -> Option<Arc<Canary>> {
        self.canary.lock().upgrade()
    }

    /// The version that runs; `None` while there is none.
    pub(super) fn version(&self) -> Option<Arc<Version>> {
        self.version.lock().upgrade()
    }

    /// Reports on this subscription.
    #[cfg(test)]
    pub(super) fn of_subscription(watch: &str, subscription: &Arc<Subscription>) -> Self {
        let status = Self::default();
        status.subscriptions.lock().push((watch.into(), Arc::downgrade(subscription)));
        status
    }

    /// Forgets the version, because it was stopped.
    pub(super) fn clear(&self) {
        self.subscriptions.lock().clear();
        *self.version.lock() = Weak::new();
        self.set_canary(None);
        *self.crd_problem.lock() = None;
    }

    /// The deleted CRD that is the cause of the watch errors.
    pub(super) fn crd_problem(&self) -> Option<String> {
        self.crd_problem.lock().clone()
    }

    /// Sets what the load waits for.
    pub(super) fn set_load_waits_for(&self, waiting_for: Option<WaitingFor>) {
        *self.load_waits_for.lock() = waiting_for;
    }

    /// What the current or last load waits for.
    pub(super) fn load_waits_for(&self) -> Option<WaitingFor> {
        self.load_waits_for.lock().clone()
    }

    /// Sets the CRD problem, and returns whether it changed.
    pub(super) fn set_crd_problem(&self, problem: Option<String>) -> bool {
        let mut current = self.crd_problem.lock();
        let has_changed = *current != problem;
        *current = problem;
        has_changed
    }
}

impl PluginHandle {
    /// Starts the task of a plugin whose files were found. If a task of the same name is still draining, because its file was removed a
    /// moment ago, the new task waits for its end: no key may be reconciled by both.
    pub(crate) fn start(
        plugin: PluginServices,
        lifecycle: Lifecycle,
        services: LoadServices,
        options: ReloadOptions,
        shutdown: CancellationToken,
        predecessor: Option<Self>,
    ) -> Self {
        let (desired_files, receiver) = watch::channel(None);
        let running_status = Arc::<RunningVersionStatus>::default();
        let status_source = Arc::new(PluginStatusSource {
            lifecycle: lifecycle.clone(),
            running_status: Arc::clone(&running_status),
            plugin: plugin.clone(),
            desired_files: receiver.clone(),
        });
        let task = tokio::spawn(async move {
            if let Some(predecessor) = predecessor {
                let in_flight = predecessor.status_source.plugin.queue.in_flight().clone();
                predecessor.join().await;
                // A request that the predecessor sent may still change objects, and this task does not know which keys it belongs to.
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => {}
                    () = in_flight.wait_until_idle() => {}
                }
            }
            let supervisor = plugin.clone();
            let recovery = RecoveryState::default();
            let start = || -> BoxFuture<'static, ()> {
                let (lifecycle, running_status) = (lifecycle.clone(), Arc::clone(&running_status));
                let (plugin, services) = (plugin.clone(), services.clone());
                // This receiver has seen no value, so a task that is started again sees the files as changed.
                let (receiver, shutdown, recovery) = (receiver.clone(), shutdown.clone(), recovery.clone());
                Box::pin(async move {
                    let mut task = Box::new(PluginTask::new(
                        plugin,
                        lifecycle,
                        services,
                        options,
                        running_status,
                        recovery,
                    ));
                    task.run(receiver, shutdown).await;
                })
            };
            supervisor.restart("plugin", start).await;
        });
        Self { desired_files, status_source, task }
    }

    /// Notifies the task that the files changed or were removed.
    pub(crate) fn set_desired_files(&self, files: DesiredFiles) {
        self.desired_files.send_replace(files);
    }

    /// Whether the plugin's files were removed. The task then ends, and accepts no new files.
    pub(crate) fn is_removed(&self) -> bool {
        self.desired_files.borrow().is_none()
    }

    /// Whether the task has ended and all requests that it sent have been answered. Until then the handle must be kept, so that a new plugin
    /// of the same name can [wait for it](Self::start).
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished() && self.status_source.plugin.queue.in_flight().is_empty()
    }

    pub(crate) fn status_source(&self) -> &Arc<PluginStatusSource> {
        &self.status_source
    }

    /// Waits for the task to end, after shutdown or after its files were removed.
    pub(crate) async fn join(self) {
        // An error would be a panic outside of the supervised part.
        let _ = self.task.await;
    }
}

impl PluginStatusSource {
    /// Returns the plugin's status, with all its problems in `error`.
    pub(crate) fn status(&self) -> PluginStatus {
        let mut status = self.lifecycle.status();
        // A plugin may have several problems at a time, which begin and end independently of each other.
        let mut problems = vec![std::mem::take(&mut status.error)];
        let mut has_broken_watch = false;
        if matches!(status.state, PluginState::Running | PluginState::BackingOff) {
            // A deleted CRD is the cause of the watch errors, so it replaces them.
            let crd_problem = self.running_status.crd_problem.lock().clone();
            let watch_problem = crd_problem.or_else(|| watch_error(&self.running_status));
            has_broken_watch = watch_problem.is_some();
            problems.extend(watch_problem);
            problems.extend(self.plugin.hot_loops.status_text());
        }
        problems.extend(self.plugin.panics.status_text());
        problems.extend(newer_crds(&self.running_status));
        problems.extend(self.plugin.rollout.status_text());
        let canary_problem = self.running_status.canary().map(|canary| canary.problem().unwrap_or_default());
        let shown = canary_problem.as_ref().filter(|problem| !problem.is_empty());
        problems.extend(shown.map(|problem| format!("the canary does no work: {problem}")));
        problems.retain(|problem| !problem.is_empty());
        status.error = problems.join("; ");
        let counters = self.plugin.metrics.counters().into_iter();
        status.counters = counters.map(|(name, count)| (name.to_owned(), count)).collect::<BTreeMap<_, _>>();
        let queue = self.plugin.queue.snapshot();
        (status.queue_depth, status.keys_in_backoff) = (queue.depth, queue.backing_off);
        status.host_memory = HostMemoryStatus::of(&self.plugin.host_memory);
        status.compiling_since = self.plugin.compile_status.since();
        let errors = &self.plugin.recent_errors;
        (status.consecutive_errors, status.last_error) = (errors.in_a_row(), errors.last());
        let is_running = status.state == PluginState::Running;
        status.failing = is_running && (has_broken_watch || errors.is_failing());
        status.paused = *self.plugin.paused.lock();
        let metrics = &self.plugin.metrics;
        status.rollout = self.plugin.rollout.status(metrics.reconciles(), metrics.canary_reconciles());
        if let Some(rollout) = &mut status.rollout {
            // A stopped plugin has no canary until it runs again.
            let canary = rollout.canary.take().zip(canary_problem);
            rollout.canary = canary.map(|(canary, error)| CanaryStatus { error, ..canary });
        }
        status.shadow = self.plugin.shadow.status();
        status.ready = is_running && !status.failing && !status.paused;
        let is_stopping = matches!(status.state, PluginState::Draining | PluginState::Stopped);
        status.removed = is_stopping && self.desired_files.borrow().is_none();
        status
    }

    /// Returns the state of the plugin.
    pub(crate) fn state(&self) -> PluginState {
        self.lifecycle.state()
    }

    /// Returns the plugin's status as [`status`](Self::status) does; `None` if it is in the state `Running`.
    pub(crate) fn status_unless_running(&self) -> Option<PluginStatus> {
        (self.lifecycle.state() != PluginState::Running).then(|| self.status())
    }

    /// The last changes of the plugin's state, the oldest first.
    pub(super) fn history(&self) -> Vec<StateChange> {
        self.lifecycle.history()
    }

    /// Updates the gauges; called when metrics are scraped.
    pub(crate) fn update_gauges(&self) {
        let snapshot = self.plugin.queue.snapshot();
        let metrics = &self.plugin.metrics;
        metrics.queue_depth.set(i64::try_from(snapshot.depth).unwrap_or(i64::MAX));
        metrics.unfinished_work.set(snapshot.unfinished_work.as_secs_f64());
        metrics.longest_running.set(snapshot.longest_running.as_secs_f64());
        metrics.observe_host_memory(&self.plugin.host_memory);
    }
}

/// Returns the error of the first watch of the running version that fails: a permission that was revoked, an unreachable server.
pub(super) fn watch_error(running_status: &RunningVersionStatus) -> Option<String> {
    running_status.subscriptions.lock().iter().find_map(|(watch, subscription)| {
        let error = subscription.upgrade()?.status().error?;
        Some(format!("watch {watch:?}: {error}"))
    })
}

/// Describes the CRDs that a newer version applied before it failed to run. They are not reverted to those of the running version.
fn newer_crds(running_status: &RunningVersionStatus) -> Option<String> {
    let version = running_status.version()?;
    let newer = version.newer_crds.lock();
    (!newer.is_empty())
        .then(|| format!("the CRD {} is that of a newer version, and is not reverted", newer.join(", ")))
}

#[cfg(test)]
mod tests;
