//! How a version becomes the running one, and how it stops.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use pilothouse_plugin::{LogLevel, Reason};
use tokio::time::{Instant, timeout_at};

use super::running::RunningVersions;
use super::running_health::RunningHealth;
use super::versions_write_guard::VersionsWriteGuard;
use super::{DRAIN_TIMEOUT, PluginTask, deleted_crds, dispatch, handover, kind_changes, observer, worker};
use crate::guest_host::INSTANCE_IDLE_TIMEOUT;
use crate::lifecycle::{Input, PluginState};
use crate::load::version::Version;

/// Why the task of a plugin ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    HostShutdown,
    FileRemoved,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostShutdown => "the host is shutting down",
            Self::FileRemoved => "its file was removed",
        })
    }
}

impl PluginTask {
    /// Replaces the running version, and its canary, by this one. The workers have finished their reconciles, and start no other until
    /// `exclusive` is released. The queue keeps its keys. Returns whether the version of the file is still to be loaded.
    pub(super) async fn swap(&mut self, version: Box<Version>, exclusive: VersionsWriteGuard) -> bool {
        let version = Arc::<Version>::from(version);
        // Whatever made the old version fail may be mended, so nothing waits for a retry that the old version is responsible for.
        self.plugin.recent_errors.forget();
        self.plugin.log.end_version();
        self.plugin.queue.reset_retries();
        let previous_backs_off =
            self.stable.as_ref().is_some_and(|previous| previous.health.backing_off().is_some());
        self.install(Arc::clone(&version), exclusive).await;
        self.plugin.metrics.loaded.inc();
        self.lifecycle
            .apply(&Input::Installed { version: &version.descriptor.version, digest: &version.digest });
        let (number, generation) = (&version.descriptor.version, self.lifecycle.generation());
        let watching = version.watch_list();
        self.plugin.log.state(
            LogLevel::Info,
            format_args!("running version {number:?}, generation {generation}; watches {watching}"),
        );
        let awaits_file = self.record_installation(&version, previous_backs_off).await;
        // Its index functions may have failed before the swap.
        self.update_health();
        awaits_file
    }

    /// Makes this the running version, and starts the tasks that belong to it.
    pub(super) async fn install(&mut self, version: Arc<Version>, exclusive: VersionsWriteGuard) {
        // The observer is in no call while the write lock is held.
        self.observer.shutdown().await;
        self.plugin.set_limits(&version.plugin_limits);
        self.dispatcher.install(Arc::clone(&version), &self.plugin);
        let canary = self.canary.as_mut().map(|task| task.finish(&self.plugin));
        self.clear_canary();
        if let Some(old) = &self.stable {
            let running = std::iter::once(old).chain(canary.as_ref().map(|canary| &canary.version));
            let running: Vec<&Version> = running.map(|version| &**version).collect();
            handover::hand_over(&running, &version, &self.plugin);
        }
        if self.options.requeue_all && self.stable.is_some() {
            dispatch::requeue(&version, &self.plugin, Reason::Startup, |_| true);
        }
        {
            // Locked, so that an operator's pause or resume reaches the version that runs afterwards.
            let paused = self.plugin.paused.lock();
            version.views.access.set_paused(*paused);
            self.running_status.set_version(&version);
        }
        self.plugin.shadow.show(version.shadow.as_ref());
        exclusive.replace(Arc::clone(&version));
        self.stable = Some(Arc::clone(&version));
        *self.recovery.version.lock() = Some(Arc::clone(&version));
        self.health_changes = version.health.changes();
        self.access_changes = version.views.access.changes();
        self.running_health.send_replace(RunningHealth::new(version.health.clone(), None));
        self.resize_workers(version.workers);
        self.plugin.metrics.max_concurrent.set(i64::try_from(version.workers).unwrap_or(i64::MAX));
        self.start_observer(&version);
        let (discovery, plugin) = (self.services.discovery.clone(), self.plugin.clone());
        self.kind_changes = kind_changes::spawn(discovery, Arc::clone(&version), plugin);
        self.restart_crd_watch(version);
    }

    /// Starts the observer of the version, if it has one. That of the version before has ended.
    fn start_observer(&mut self, version: &Arc<Version>) {
        if version.observer_subscriptions.is_empty() {
            self.recovery.history.clear();
            return;
        }
        let (running, version) = (Arc::clone(&self.running), Arc::clone(version));
        let (plugin, history) = (self.plugin.clone(), self.recovery.history.clone());
        self.observer.spawn(async move {
            let observe = || -> BoxFuture<'static, ()> {
                let (running, version) = (Arc::clone(&running), Arc::clone(&version));
                Box::pin(observer::observe(running, version, plugin.clone(), history.clone()))
            };
            plugin.restart("observer", observe).await;
        });
    }

    /// Ends the watch over the CRDs of the version before, and starts one for the CRDs of this version, if it has any.
    fn restart_crd_watch(&mut self, version: Arc<Version>) {
        self.crds.abort_all();
        if version.descriptor.crds.is_empty() {
            return;
        }
        let (services, running_status) = (self.services.clone(), Arc::clone(&self.running_status));
        let (lifecycle, plugin) = (self.lifecycle.clone(), self.plugin.clone());
        self.crds.spawn(async move {
            let restore = || -> BoxFuture<'static, ()> {
                let (services, lifecycle) = (services.clone(), lifecycle.clone());
                let (version, running_status) = (Arc::clone(&version), Arc::clone(&running_status));
                let plugin = plugin.clone();
                Box::pin(deleted_crds::restore(services, version, plugin, running_status, lifecycle))
            };
            plugin.restart("CRDs", restore).await;
        });
    }

    /// Updates the lifecycle state: whether the running version lacks a permission or backs off after faults.
    pub(super) fn update_health(&self) {
        let Some(version) = &self.stable else { return };
        if let Some(why) = version.views.access.reason() {
            self.lifecycle.apply(&Input::Suspended { why: &why });
            return;
        }
        self.lifecycle.apply(&Input::Resumed);
        let log = &self.plugin.log;
        match version.health.backing_off() {
            Some(backing_off) => {
                let wait = backing_off.until.saturating_duration_since(Instant::now());
                let problem = backing_off.to_string();
                self.lifecycle.apply(&Input::Faulty { problem: &problem, wait });
                if !wait.is_zero() {
                    log.state(
                        LogLevel::Warn,
                        format_args!("backing off, tried again in {wait:.1?}: {problem}"),
                    );
                }
            }
            None => {
                if self.lifecycle.apply(&Input::Recovered) {
                    log.state(LogLevel::Info, format_args!("running again after faults"));
                }
            }
        }
    }

    /// Updates the lifecycle state after a change of the running version's permissions, and lets the keys continue that waited for it.
    pub(super) fn update_access(&self) {
        self.update_health();
        if let Some(version) = &self.stable {
            self.retry_blocked_keys(version);
        }
    }

    /// Sets the number of workers. Surplus ones end once they are done with their current key.
    pub(super) fn resize_workers(&mut self, desired: usize) {
        let (running, health, plugin) = (&self.running, &self.running_health, &self.plugin);
        self.workers.resize(desired, |slot| {
            worker::run_worker(slot, Arc::clone(running), health.subscribe(), plugin.clone())
        });
    }

    pub(super) fn drop_idle_instances(&self) {
        let canary = self.canary.as_ref().map(|task| &task.canary.version);
        for version in self.stable.iter().chain(canary).filter(|version| !version.descriptor.stateful) {
            let dropped = version.pool.drop_idle(INSTANCE_IDLE_TIMEOUT);
            if dropped > 0 {
                tracing::debug!(plugin = %self.plugin.name, dropped, "idle instances dropped");
            }
        }
    }

    /// Stops the running version. The workers may finish their reconciles for up to [`DRAIN_TIMEOUT`]; then they are aborted.
    pub(super) async fn uninstall(&mut self) {
        // The state is `Draining` already if this task panicked and was started again in the middle of this.
        if self.lifecycle.status().state != PluginState::Draining {
            self.lifecycle.apply(&Input::Draining);
        }
        let drained = timeout_at(Instant::now() + DRAIN_TIMEOUT, self.running.write()).await;
        if drained.map(|mut running| std::mem::take(&mut *running)).is_err() {
            let seconds = DRAIN_TIMEOUT.as_secs();
            let text =
                format_args!("still reconciling {seconds} s after it should have stopped; it is cut off");
            self.plugin.log.state(LogLevel::Warn, text);
        }
        self.recovery.version.lock().take();
        if let Some(task) = &self.canary {
            task.canary.version.retire();
        }
        self.clear_canary();
        if let Some(version) = self.stable.take() {
            version.retire();
        }
        self.workers.shutdown().await;
        self.observer.shutdown().await;
        self.crds.shutdown().await;
        self.kind_changes.shutdown().await;
        *self.running.write().await = RunningVersions::default();
        self.dispatcher.clear();
        self.running_status.clear();
        self.plugin.shadow.show(None);
        self.record_end().await;
    }

    /// Stops the plugin for good. The record of its rollout is kept for the host that continues after a shutdown.
    pub(super) async fn stop(&mut self, reason: StopReason) {
        self.uninstall().await;
        if reason == StopReason::FileRemoved {
            self.plugin.rollout.remove_record().await;
        }
        self.plugin.queue.shutdown();
        self.plugin.release();
        let with_host = reason == StopReason::HostShutdown;
        self.lifecycle.apply(&Input::Stopped { why: &reason.to_string(), with_host });
        self.plugin.log.end_version();
        self.plugin.log.state(LogLevel::Info, format_args!("stopped: {reason}"));
    }
}
