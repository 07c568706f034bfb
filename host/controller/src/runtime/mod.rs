//! The task of one plugin: it owns the queue, the running version, and the version that is being loaded.
//!
//! ```text
//! directory ──DesiredFiles──▶ PluginTask ──load──▶ Version ──swap──▶ workers
//! informers ──batches──▶          └──────dispatch──▶ queue ──keys──▶ workers ──▶ instances
//!     └──────batches──▶ observer ──▶ the dedicated instance
//! ```

mod canary;
mod control;
pub(crate) mod dedicated_instance;
mod deleted_crds;
mod details;
mod dispatch;
mod explain;
mod handle;
mod handover;
pub(crate) mod hot_loop;
mod installation;
pub(crate) mod key_mapper;
mod kind_changes;
mod observer;
mod pending_swap;
mod pending_version;
pub mod predicate;
pub(crate) mod queue;
mod rollout;
mod running;
mod running_health;
pub(crate) mod slow_reconciles;
mod versions_write_guard;
mod worker;
mod workers;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_plugin::LogLevel;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::access;
use crate::directory::PluginFiles;
use crate::guest_host::{INSTANCE_IDLE_TIMEOUT, PluginServices};
use crate::lifecycle::{Health, Input, Lifecycle, PluginState};
use crate::load::version::{Role, Version};
use crate::load::{LoadOutcome, LoadProblem, LoadServices, Report, load};
use canary::CanaryTask;
pub use control::{ControlError, KeyStateName, PluginKeys, QueuedKey};
pub use details::{PluginDetails, PluginGrants, WatchDetails};
use dispatch::Dispatcher;
pub(crate) use explain::CollectedFacts;
use handle::RunningVersionStatus;
pub(crate) use handle::{PluginHandle, PluginStatusSource};
pub(crate) use handover::RenamedWatches;
use installation::StopReason;
use pending_swap::PendingSwap;
use pending_version::{LoadEvent, LoadTask, PendingVersion};
use running::SharedVersions;
use running_health::RunningHealth;
use versions_write_guard::VersionsWriteGuard;
use workers::Workers;

/// How long a stopping plugin may take to finish its reconciles; the process must have ended 10 s after SIGTERM.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);

/// The plugin's files, or `None` once they were removed.
pub(crate) type DesiredFiles = Option<PluginFiles>;

/// How reloads behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReloadOptions {
    /// Whether a swap queues every object of the target watches again. Disabled only in tests, because it would hide a key that a swap lost.
    pub(crate) requeue_all: bool,
}

/// The state of a plugin's task.
struct PluginTask {
    plugin: PluginServices,
    services: LoadServices,
    options: ReloadOptions,
    lifecycle: Lifecycle,
    /// The versions that the workers run. A worker holds a read lock while it reconciles. A swap takes the write lock: it waits for the
    /// reconciles that run, and new ones wait for it. This task must not take a read lock: it would wait for ever behind a swap that it has
    /// to carry out itself.
    running: SharedVersions,
    /// The running version, for use by this task without a lock. A canary may run beside it.
    stable: Option<Arc<Version>>,
    /// The canary. Boxed, because most plugins have none.
    canary: Option<Box<CanaryTask>>,
    /// The health of the running versions. The workers check it before they take a key.
    running_health: watch::Sender<RunningHealth>,
    /// Notified when the running version's health changes.
    health_changes: watch::Receiver<()>,
    /// Notified when the running version's permissions change.
    access_changes: watch::Receiver<access::AccessState>,
    running_status: Arc<RunningVersionStatus>,
    workers: Workers,
    /// The state that survives a panic of this task.
    recovery: RecoveryState,
    /// The observer of the running version, if it has one. It holds the read lock during its calls, as the workers do.
    observer: JoinSet<()>,
    /// Watches the CRDs that the running version installed.
    crds: JoinSet<()>,
    /// Ends when a kind that the running version watches is served as another resource.
    kind_changes: JoinSet<String>,
    dispatcher: Dispatcher,
    /// When the running version is checked next; `None` if it is not in probation.
    next_check: Option<Instant>,
}

/// What a task that panicked leaves to its successor: the version continues with its subscriptions, so no notification that waits in them
/// is lost. Cheap to clone.
#[derive(Clone, Default)]
struct RecoveryState {
    version: Arc<Mutex<Option<Arc<Version>>>>,
    /// The canary, which the successor retires: its load begins again.
    canary: Arc<Mutex<Option<Arc<Version>>>>,
    /// What observers have received.
    history: observer::DeliveryHistory,
}

impl PluginTask {
    fn new(
        plugin: PluginServices,
        lifecycle: Lifecycle,
        services: LoadServices,
        options: ReloadOptions,
        running_status: Arc<RunningVersionStatus>,
        recovery: RecoveryState,
    ) -> Self {
        let health = Health::default();
        Self {
            plugin,
            services,
            options,
            lifecycle,
            running: Arc::default(),
            stable: None,
            canary: None,
            health_changes: health.changes(),
            access_changes: access::Access::default().changes(),
            running_health: watch::Sender::new(RunningHealth::new(health, None)),
            running_status,
            workers: Workers::default(),
            recovery,
            observer: JoinSet::new(),
            crds: JoinSet::new(),
            kind_changes: JoinSet::new(),
            dispatcher: Dispatcher::default(),
            next_check: None,
        }
    }

    async fn run(&mut self, mut desired_files: watch::Receiver<DesiredFiles>, shutdown: CancellationToken) {
        let mut pending = PendingVersion::default();
        let mut last_files: DesiredFiles = None;
        self.plugin.rollout.restore().await;
        self.recover().await;
        let mut housekeeping = interval(INSTANCE_IDLE_TIMEOUT / 2);
        housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    pending.cancel();
                    return Box::pin(self.stop(StopReason::HostShutdown)).await;
                }
                changed = desired_files.changed() => {
                    self.plugin.panics.inject_test_panic("plugin");
                    pending.cancel();
                    let files = desired_files.borrow_and_update().clone();
                    if files.as_ref().is_some_and(|files| files.has_other_code_than(last_files.as_ref())) {
                        self.plugin.rollout.file_changed();
                    }
                    last_files.clone_from(&files);
                    match files {
                        Some(files) if changed.is_ok() => self.start_loading(&mut pending, files, &Input::Found),
                        _ => return Box::pin(self.stop(StopReason::FileRemoved)).await,
                    }
                }
                // Boxed, because such futures are large and rare, while this one exists for as long as the plugin.
                event = pending.next() => {
                    Box::pin(self.handle_load_event(event, &mut pending, last_files.clone())).await;
                }
                () = self.plugin.rollout.wait_until_requested() => {
                    Box::pin(self.load_chosen_version(&mut pending, last_files.clone())).await;
                }
                () = rollout::wait_until(self.next_check) => {
                    Box::pin(self.check_versions(&mut pending, last_files.clone())).await;
                }
                () = self.workers.wait_until_missing() => self.resize_workers(self.workers.desired()),
                Ok(()) = self.health_changes.changed() => {
                    self.update_health();
                    Box::pin(self.check_probation(&mut pending, last_files.clone())).await;
                }
                Ok(()) = self.access_changes.changed() => self.update_access(),
                Some(Ok(change)) = self.kind_changes.join_next(), if !self.kind_changes.is_empty() => {
                    let files = desired_files.borrow().clone();
                    if let Some(version) = &self.stable {
                        self.reload_for_changed_kind(&mut pending, files, version, &change);
                    }
                }
                () = self.dispatcher.next(&self.plugin), if !pending.pauses_dispatch() => {}
                event = canary::next_event(&mut self.canary, &self.plugin), if self.canary.is_some() => {
                    Box::pin(self.handle_canary(event, &mut pending, last_files.clone())).await;
                }
                _ = housekeeping.tick() => {
                    self.drop_idle_instances();
                    self.lifecycle.report_long_wait();
                    self.plugin.log.flush_reports();
                }
            }
        }
    }

    /// Installs the version that ran when the previous task of the plugin panicked, and retires its canary.
    async fn recover(&mut self) {
        let abandoned = self.recovery.canary.lock().take();
        if let Some(canary) = abandoned {
            canary.retire();
        }
        let recovered = self.recovery.version.lock().clone();
        if let Some(version) = recovered {
            // The workers of the previous task were aborted, and used a lock of their own.
            let exclusive = VersionsWriteGuard::acquire(Arc::clone(&self.running)).await;
            Box::pin(self.install(version, exclusive)).await;
            self.schedule_check();
        }
    }

    /// Handles the next step of a load.
    async fn handle_load_event(
        &mut self,
        event: LoadEvent,
        pending: &mut PendingVersion,
        files: DesiredFiles,
    ) {
        match event {
            LoadEvent::Finished(loaded, outcome) => self.finish_load(pending, loaded, outcome).await,
            LoadEvent::Ready(version, exclusive) => {
                self.run_loaded(version, exclusive, pending, files).await;
            }
            LoadEvent::CanaryChange(share, exclusive) => {
                self.change_canary(share, pending, files, exclusive).await;
            }
            LoadEvent::DispatchPauseChanged => {}
            LoadEvent::RetryDue(files) => self.start_loading(pending, files, &Input::Retry),
        }
    }

    /// Loads the files of a running version again, because a kind that it watches is served as another resource now.
    fn reload_for_changed_kind(
        &self,
        pending: &mut PendingVersion,
        files: Option<PluginFiles>,
        version: &Version,
        change: &str,
    ) {
        let Some(files) = files else { return };
        self.plugin.log.state(LogLevel::Warn, format_args!("reloading: {change}"));
        version.must_reload.store(true, Ordering::Relaxed);
        pending.cancel();
        self.start_loading(pending, files, &Input::Found);
    }

    /// Loads the files. A canary that was rolled back ends before that, so that it does not outlive a load that fails or waits.
    fn start_loading(&self, pending: &mut PendingVersion, files: PluginFiles, cause: &Input<'_>) {
        self.lifecycle.apply(cause);
        if self.canary.is_some() && !self.plugin.rollout.has_canary() {
            return pending.change_canary(None, Arc::clone(&self.running));
        }
        let (lifecycle, log, load_number) =
            (self.lifecycle.clone(), self.plugin.log.clone(), self.lifecycle.load_number());
        let running_status = Arc::clone(&self.running_status);
        let report: Report = Arc::new(move |step| {
            let before = lifecycle.error();
            let (state, waiting_for) = (step.state(), step.waiting_for());
            lifecycle.apply(&Input::Step { load: load_number, state, waiting_for: &waiting_for });
            running_status.set_load_waits_for(step.into_waiting_for());
            if state == PluginState::Waiting && lifecycle.error() != before {
                log.state(LogLevel::Info, format_args!("waiting: {waiting_for}"));
            }
        });
        let (services, plugin) = (self.services.clone(), self.plugin.clone());
        // Here and not in the load task, which may run for a moment longer after it was aborted.
        let grants_writer = plugin.current_grants.begin_load();
        let canary = self.canary.as_ref().map(|task| Arc::clone(&task.canary.version));
        let (running, loaded) = (self.stable.clone(), files.clone());
        let task: LoadTask =
            tokio::spawn(load(services, plugin, grants_writer, loaded, running, canary, report));
        pending.load(files, task);
    }

    /// Handles the end of a load. For a version that can run, it starts the swap.
    async fn finish_load(
        &mut self,
        pending: &mut PendingVersion,
        files: PluginFiles,
        outcome: Result<LoadOutcome, LoadProblem>,
    ) {
        let log = self.plugin.log.clone();
        match outcome {
            Ok(LoadOutcome::Version(version)) => {
                pending.swap(PendingSwap::new(files, *version, Arc::clone(&self.running)));
            }
            Ok(LoadOutcome::Unchanged) => {
                self.lifecycle.apply(&Input::Unchanged);
            }
            Ok(LoadOutcome::Canary(share)) => self.finish_canary_load(pending, share),
            Ok(LoadOutcome::Disabled) => {
                log.state(LogLevel::Info, format_args!("its sidecar says enabled: false; it does not run"));
                self.uninstall().await;
                let why = "its sidecar says enabled: false";
                self.lifecycle.apply(&Input::Stopped { why, with_host: false });
            }
            Err(problem) => {
                self.plugin.metrics.refused.inc();
                if let Some(stable) = self.stable.as_ref().filter(|_| self.canary.is_none()) {
                    // The limit was raised for the version that failed to load. With a canary, it stays raised.
                    self.plugin.host_memory.set_limit(stable.plugin_limits.host_memory);
                }
                let stays = if self.stable.is_some() { "; the running version stays installed" } else { "" };
                let text = match self.plugin.rollout.requested() {
                    Some(version) => format!("{version} cannot run again: {problem}"),
                    None => problem.to_string(),
                };
                if problem.is_transient() {
                    let wait = pending.schedule_retry(files, self.plugin.environment.randomness.fraction());
                    self.lifecycle.apply(&Input::Postponed { problem: &text, wait });
                    let again = format_args!("tried again in {wait:.1?}{stays}");
                    log.state(LogLevel::Warn, format_args!("not loaded, {again}: {text}"));
                } else {
                    self.lifecycle.apply(&Input::Refused { problem: &text });
                    log.state(LogLevel::Error, format_args!("not loaded{stays}: {text}"));
                    if self.plugin.rollout.give_up() {
                        self.start_loading(pending, files, &Input::Found);
                    }
                }
            }
        }
    }

    /// Lets a version that was loaded run, and loads its canary if it is to have one.
    async fn run_loaded(
        &mut self,
        version: Box<Version>,
        exclusive: VersionsWriteGuard,
        pending: &mut PendingVersion,
        files: DesiredFiles,
    ) {
        if self.plugin.rollout.is_held_back(&version.digest) {
            // An operator has rolled it back while it was loaded. The load of what is to run instead follows.
            return;
        }
        match version.role.clone() {
            Role::Canary(share) => self.begin_canary(version, share, exclusive).await,
            role @ (Role::Alone | Role::BesideCanary) => {
                let awaits_file = self.swap(version, exclusive).await;
                if let Some(files) = files.filter(|_| awaits_file || role == Role::BesideCanary) {
                    self.start_loading(pending, files, &Input::Found);
                }
            }
        }
    }
}
