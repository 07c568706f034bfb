//! Carries out what is decided about a canary: begins it, changes its share, judges it and ends it.
//!
//! The canary has a dispatcher and subscriptions of its own, so the watches of both versions queue keys. Begin, end and each change of the
//! share happen while no guest call is under way, as a swap does. Every swap of the stable version ends the canary; the load that follows
//! begins it again if it is still wanted.

use std::sync::Arc;

use pilothouse_model::ObjectKey;
use pilothouse_plugin::{LogLevel, Reason};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::dispatch::{self, Dispatcher};
use super::pending_version::PendingVersion;
use super::rollout::sample;
use super::running::Canary;
use super::running_health::RunningHealth;
use super::versions_write_guard::VersionsWriteGuard;
use super::{PluginTask, handover, kind_changes};
use crate::access::AccessState;
use crate::config::canary_share::CanaryShare;
use crate::config::rollout_settings::format_duration;
use crate::directory::PluginFiles;
use crate::guest_host::PluginServices;
use crate::lifecycle::{Input, RecentErrors};
use crate::load::version::Version;
use crate::rollout::CanaryStart;
use crate::rollout::decision::{Counts, Decision};

/// The canary of a plugin's task, with what belongs to it.
pub(super) struct CanaryTask {
    pub(super) canary: Arc<Canary>,
    dispatcher: Dispatcher,
    /// Notified when the canary's health changes.
    health_changes: watch::Receiver<()>,
    /// Notified when the canary's permissions change.
    access_changes: watch::Receiver<AccessState>,
    /// Ends when a kind that the canary watches is served as another resource.
    kind_changes: JoinSet<String>,
}

/// What happened to a canary.
pub(super) enum CanaryEvent {
    /// Some of its notifications were dispatched.
    Dispatched,
    /// It begins to back off, or has recovered.
    HealthChanged,
    /// It is suspended or paused, or may work again.
    AccessChanged,
    /// A kind that it watches is served as another resource.
    KindChanged(String),
}

impl CanaryTask {
    /// Queues the keys of the notifications that were taken from a subscription, and returns the canary, which is about to end.
    pub(super) fn finish(&mut self, plugin: &PluginServices) -> Arc<Canary> {
        self.dispatcher.finish_batch(plugin);
        Arc::clone(&self.canary)
    }

    /// Waits for the next event. Cancellation safe.
    async fn next(&mut self, plugin: &PluginServices) -> CanaryEvent {
        tokio::select! {
            biased;
            Ok(()) = self.health_changes.changed() => CanaryEvent::HealthChanged,
            Ok(()) = self.access_changes.changed() => CanaryEvent::AccessChanged,
            Some(Ok(change)) = self.kind_changes.join_next(), if !self.kind_changes.is_empty() => {
                CanaryEvent::KindChanged(change)
            }
            () = self.dispatcher.next(plugin) => CanaryEvent::Dispatched,
        }
    }
}

/// Waits for the next event of the canary, for ever without one. Cancellation safe.
pub(super) async fn next_event(canary: &mut Option<Box<CanaryTask>>, plugin: &PluginServices) -> CanaryEvent {
    match canary {
        // Boxed, because the future of the plugin's task, which contains this one, exists for as long as the plugin.
        Some(canary) => Box::pin(canary.next(plugin)).await,
        None => std::future::pending().await,
    }
}

impl PluginTask {
    /// Lets a version that was loaded as a canary reconcile its keys. An earlier canary ends. The queue keeps its keys.
    pub(super) async fn begin_canary(
        &mut self,
        version: Box<Version>,
        share: CanaryShare,
        exclusive: VersionsWriteGuard,
    ) {
        let Some(stable) = self.stable.clone() else { return };
        let version = Arc::<Version>::from(version);
        let before = self.canary.take().map(|mut task| task.finish(&self.plugin));
        // Copies the former names of target watches, because queued keys may still use them.
        let renamed = stable.renamed_watches.lock().clone();
        *version.renamed_watches.lock() = renamed;
        if let Some(before) = &before {
            handover::hand_over(&[&*stable, &*before.version], &stable, &self.plugin);
        }
        for route in &version.routes {
            // Discards the canary's initial objects: `requeue_moved` queues those whose version changes.
            let initial = route.subscribed.take_initial();
            version.views.confirm_own_writes(&route.watch, &initial);
        }
        let mut dispatcher = Dispatcher::default();
        dispatcher.install(Arc::clone(&version), &self.plugin);
        let canary = Arc::new(Canary {
            version: Arc::clone(&version),
            share: share.clone(),
            recent_errors: RecentErrors::new(self.plugin.environment.clock),
        });
        let was_included = |key: &ObjectKey| before.as_ref().is_some_and(|before| before.share.includes(key));
        let is_moved = |key: &ObjectKey| share.includes(key) || was_included(key);
        self.requeue_moved(&stable, Some(&version), is_moved);
        {
            // Locked, so that an operator's pause or resume reaches the canary.
            let paused = self.plugin.paused.lock();
            version.views.access.set_paused(*paused);
            self.running_status.set_canary(Some(&canary));
        }
        // From the next line on, workers may reconcile keys with the canary.
        let counts_before = self.plugin.metrics.canary_reconciles();
        exclusive.set_canary(Some(Arc::clone(&canary)));
        *self.recovery.canary.lock() = Some(Arc::clone(&version));
        self.running_health
            .send_replace(RunningHealth::new(stable.health.clone(), Some(version.health.clone())));
        let (discovery, plugin) = (self.services.discovery.clone(), self.plugin.clone());
        let kind_changes = kind_changes::spawn(discovery, Arc::clone(&version), plugin);
        let (health_changes, access_changes) = (version.health.changes(), version.views.access.changes());
        let task = CanaryTask { canary, dispatcher, health_changes, access_changes, kind_changes };
        self.canary = Some(Box::new(task));
        self.record_canary(&version, share, counts_before).await;
    }

    /// `counts` are the reconciles of earlier canaries.
    async fn record_canary(&mut self, version: &Version, share: CanaryShare, counts: Counts) {
        self.lifecycle.apply(&Input::Unchanged);
        self.plugin.metrics.loaded.inc();
        let known = version.known_version();
        self.plugin.log.state(
            LogLevel::Info,
            format_args!("{known} runs as a canary: it reconciles the keys of {share}"),
        );
        let start = CanaryStart { version: known, share, probation: version.probation, counts };
        if let Some(period) = self.plugin.rollout.record_canary(start) {
            let period = format_duration(period);
            let text =
                format_args!("the canary is in probation for {period}; then it is promoted, unless it fails");
            self.plugin.log.state(LogLevel::Info, text);
        }
        self.plugin.rollout.save(self.plugin.metrics.reconciles(), true).await;
        self.schedule_check();
    }

    /// Gives the canary the keys of this share, or ends it. The version that gets keys reconciles their objects again.
    pub(super) async fn change_canary(
        &mut self,
        share: Option<CanaryShare>,
        pending: &mut PendingVersion,
        files: Option<PluginFiles>,
        exclusive: VersionsWriteGuard,
    ) {
        let (Some(stable), Some(task)) = (self.stable.clone(), &mut self.canary) else { return };
        let before = Arc::clone(&task.canary);
        let Some(share) = share else {
            task.finish(&self.plugin);
            handover::hand_over(&[&*stable, &*before.version], &stable, &self.plugin);
            self.requeue_moved(&stable, None, |key| before.share.includes(key));
            self.clear_canary();
            self.plugin.set_limits(&stable.plugin_limits);
            exclusive.set_canary(None);
            self.running_health.send_replace(RunningHealth::new(stable.health.clone(), None));
            let known = stable.known_version();
            self.plugin
                .log
                .state(LogLevel::Info, format_args!("the canary has ended: {known} reconciles all keys"));
            self.plugin.rollout.save(self.plugin.metrics.reconciles(), true).await;
            // A load may have been cancelled for this.
            if let Some(files) = files {
                self.start_loading(pending, files, &Input::Found);
            }
            return;
        };
        let canary = Arc::new(Canary {
            version: Arc::clone(&before.version),
            share: share.clone(),
            recent_errors: before.recent_errors.clone(),
        });
        task.canary = Arc::clone(&canary);
        self.running_status.set_canary(Some(&canary));
        let is_moved = |key: &ObjectKey| before.share.includes(key) != share.includes(key);
        self.requeue_moved(&stable, Some(&before.version), is_moved);
        exclusive.set_canary(Some(canary));
        self.plugin.log.state(LogLevel::Info, format_args!("the canary reconciles the keys of {share} now"));
        self.plugin.rollout.set_share(share);
    }

    /// Forgets the canary, which is retired by whoever holds the lock of the versions.
    pub(super) fn clear_canary(&mut self) {
        self.canary = None;
        self.recovery.canary.lock().take();
        self.running_status.set_canary(None);
    }

    /// Queues the keys that get another version, and makes their retries due: those of the targets' objects, and those that objects of other
    /// watches of the versions name. The target watches of both versions are the same, their other watches need not be.
    fn requeue_moved(
        &self,
        stable: &Version,
        canary: Option<&Version>,
        is_moved: impl Fn(&ObjectKey) -> bool,
    ) {
        // A key may wait for a retry that the other version is responsible for.
        self.plugin.queue.reset_retries();
        if self.options.requeue_all {
            dispatch::requeue(stable, &self.plugin, Reason::Startup, &is_moved);
            for version in std::iter::once(stable).chain(canary) {
                dispatch::requeue_named(version, &self.plugin, &is_moved);
            }
        }
    }

    /// Handles the end of a load that leaves the running versions: the share of the canary may be another, or the canary may have to end.
    pub(super) fn finish_canary_load(&self, pending: &mut PendingVersion, share: Option<CanaryShare>) {
        self.lifecycle.apply(&Input::Unchanged);
        let current = self.canary.as_ref().map(|task| &task.canary.share);
        if current.is_some() && current != share.as_ref() {
            pending.change_canary(share, Arc::clone(&self.running));
        }
    }

    /// Handles an event of the canary.
    pub(super) async fn handle_canary(
        &mut self,
        event: CanaryEvent,
        pending: &mut PendingVersion,
        files: Option<PluginFiles>,
    ) {
        match event {
            CanaryEvent::Dispatched => {}
            CanaryEvent::HealthChanged => {
                if let Some(problem) = self.canary.as_ref().and_then(|task| task.canary.problem()) {
                    self.plugin.log.state(LogLevel::Warn, format_args!("the canary does no work: {problem}"));
                }
                self.check_canary(pending, files).await;
            }
            CanaryEvent::AccessChanged => {
                if let Some(task) = &self.canary {
                    self.retry_blocked_keys(&task.canary.version);
                }
            }
            CanaryEvent::KindChanged(change) => {
                if let Some(task) = &self.canary {
                    self.reload_for_changed_kind(pending, files, &task.canary.version, &change);
                }
            }
        }
    }

    /// Makes the keys ready that waited for this version, if it may work again. Only beside a canary do keys wait for a version in the queue
    /// with a delay.
    pub(super) fn retry_blocked_keys(&self, version: &Version) {
        if self.canary.is_some() && !version.views.access.is_blocked() {
            self.plugin.queue.reset_retries();
        }
    }

    /// Decides about the canary if it is in probation, and schedules the next check.
    pub(super) async fn check_canary(&mut self, pending: &mut PendingVersion, files: Option<PluginFiles>) {
        let canary = self.canary.as_ref().map(|task| Arc::clone(&task.canary));
        // A canary that is about to end is not judged. While another version is being loaded, it still runs, and may have to be rolled back.
        if let (Some(canary), Some(files), false) = (canary, files, pending.is_changing_versions()) {
            self.judge_canary(&canary, pending, files).await;
        }
        self.schedule_check();
    }

    async fn judge_canary(&mut self, canary: &Canary, pending: &mut PendingVersion, files: PluginFiles) {
        let (version, metrics) = (&canary.version, &self.plugin.metrics);
        let sample = sample(version, metrics.canary_reconciles(), &canary.recent_errors);
        let known = version.known_version();
        match self.plugin.rollout.check_canary(&sample, metrics.reconciles()) {
            None | Some(Decision::Wait) => {}
            Some(Decision::Pass) => {
                self.plugin
                    .log
                    .state(LogLevel::Info, format_args!("the canary {known} has passed its probation"));
                self.plugin.rollout.save(self.plugin.metrics.reconciles(), true).await;
                // Nothing is decided about a canary whose file has changed since.
                if self.plugin.rollout.requested().is_some() {
                    pending.cancel();
                    self.start_loading(pending, files, &Input::Found);
                }
            }
            Some(Decision::RollBack(cause)) => {
                self.plugin
                    .log
                    .state(LogLevel::Warn, format_args!("rolling back the canary {known}: {cause}"));
                self.end_canary(pending).await;
            }
        }
    }

    /// Ends the canary that was rolled back.
    pub(super) async fn end_canary(&mut self, pending: &mut PendingVersion) {
        if let (Some((reason, is_automatic)), Some(stable)) =
            (self.plugin.rollout.held_back_reason(), &self.stable)
        {
            self.report_rollback(&stable.known_version(), &reason, is_automatic, false);
        }
        pending.cancel();
        pending.change_canary(None, Arc::clone(&self.running));
        // Before the canary has ended: a host that ends meanwhile must not begin it again.
        self.plugin.rollout.save(self.plugin.metrics.reconciles(), true).await;
    }
}

impl Canary {
    /// Returns why the canary does no work now; `None` if it works.
    pub(super) fn problem(&self) -> Option<String> {
        let version = &self.version;
        version.views.access.reason().or_else(|| Some(version.health.backing_off()?.to_string()))
    }
}
