//! Carries out what is decided about the plugin's versions: keeps the code of older ones, checks the running one while it is in probation,
//! and loads another one.

use std::time::Duration;

use pilothouse_plugin::{KeepError, LogLevel};
use tokio::time::{Instant, sleep_until};

use super::PluginTask;
use super::pending_version::PendingVersion;
use crate::config::rollout_settings::format_duration;
use crate::directory::PluginFiles;
use crate::lifecycle::{Input, RecentErrors};
use crate::load::version::{Role, Version};
use crate::rollout::decision::{Counts, Decision};
use crate::rollout::{Installation, KnownVersion, Sample};

/// How often a version in probation is checked. A version that begins to back off is checked at once.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Waits until the time; for ever without one.
pub(super) async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Returns what a probation is decided by now. `counts` are those of all versions that share the role of this one: the running versions, or
/// the canaries.
pub(super) fn sample(version: &Version, counts: Counts, recent_errors: &RecentErrors) -> Sample {
    Sample {
        counts,
        errors_in_a_row: recent_errors.in_a_row(),
        is_backing_off: version.health.backing_off().is_some(),
        is_blocked: version.views.access.is_blocked(),
    }
}

impl PluginTask {
    /// Records that the version runs, and keeps the code of the one before. Returns whether the version of the file is still to be loaded.
    pub(super) async fn record_installation(&mut self, version: &Version, previous_backs_off: bool) -> bool {
        let rollout = self.plugin.rollout.clone();
        let installation = Installation {
            version: version.known_version(),
            file_digest: version.file_digest.clone(),
            probation: version.probation,
            counts: self.plugin.metrics.reconciles(),
            previous_backs_off,
            awaits_canary: version.role == Role::BesideCanary,
        };
        let installed = rollout.record_installation(&installation);
        if let Some((reason, is_automatic)) = installed.rollback {
            self.report_rollback(&installation.version, &reason, is_automatic, installed.awaits_file);
        }
        let can_roll_back = self.keep_older_versions().await;
        if let Some((period, previous)) = installed.probation.filter(|_| can_roll_back) {
            let period = format_duration(period);
            let text =
                format_args!("in probation for {period}; if it fails meanwhile, {previous} runs again");
            self.plugin.log.state(LogLevel::Info, text);
        }
        rollout.save(self.plugin.metrics.reconciles(), true).await;
        self.schedule_check();
        installed.awaits_file
    }

    /// Reports that the version runs again. `awaits_file` is whether the version of the file is still to be loaded.
    pub(super) fn report_rollback(
        &self,
        version: &KnownVersion,
        reason: &str,
        is_automatic: bool,
        awaits_file: bool,
    ) {
        let metrics = &self.plugin.metrics;
        if is_automatic {
            metrics.automatic_rollbacks.inc();
            let note = format!("The newest version was rolled back, and {version} runs again: {reason}");
            self.lifecycle.warn("RolledBack", note);
        } else {
            metrics.operator_rollbacks.inc();
        }
        let log = &self.plugin.log;
        if awaits_file {
            let text = format_args!("{version} runs again: {reason}; the newer file is still to be loaded");
            log.state(LogLevel::Warn, text);
        } else {
            let text = format_args!(
                "{version} runs in place of the file's: {reason}; that one is not loaded again until the file changes"
            );
            log.state(LogLevel::Warn, text);
        }
    }

    /// Keeps the code of the versions that do not run. Returns whether the running version's probation can continue.
    async fn keep_older_versions(&mut self) -> bool {
        let rollout = &self.plugin.rollout;
        let mut can_roll_back = true;
        for version in rollout.release_unused_code() {
            let kept = match version.sum() {
                Some(sum) => self.services.engine.keep_code(sum).await,
                None => Err(KeepError::NotCached),
            };
            match kept {
                Ok(code) => rollout.keep(&version, code),
                Err(error) if rollout.forget(&version) => {
                    can_roll_back = false;
                    let text = format_args!("there is no probation, because {version} is not kept: {error}");
                    self.plugin.log.state(LogLevel::Warn, text);
                }
                Err(error) => {
                    tracing::debug!(plugin = %self.plugin.name, "{version} is not kept: {error}");
                }
            }
        }
        can_roll_back
    }

    /// Schedules the next check of a version in probation.
    pub(super) fn schedule_check(&mut self) {
        let rollout = &self.plugin.rollout;
        let is_in_probation = (self.stable.is_some() && rollout.is_in_probation())
            || (self.canary.is_some() && rollout.has_canary_in_probation());
        self.next_check = is_in_probation.then(|| Instant::now() + CHECK_INTERVAL);
    }

    /// Decides about the versions that are in probation.
    pub(super) async fn check_versions(&mut self, pending: &mut PendingVersion, files: Option<PluginFiles>) {
        self.check_probation(pending, files.clone()).await;
        self.check_canary(pending, files).await;
    }

    /// Decides about the running version if it is in probation.
    pub(super) async fn check_probation(&mut self, pending: &mut PendingVersion, files: Option<PluginFiles>) {
        let (Some(version), Some(files)) = (self.stable.clone(), files) else {
            self.next_check = None;
            return;
        };
        // A version that is about to be replaced is not judged. While another one is being loaded, it still runs, and may have to be rolled back.
        if pending.is_changing_versions() {
            return self.schedule_check();
        }
        let sample = sample(&version, self.plugin.metrics.reconciles(), &self.plugin.recent_errors);
        match self.plugin.rollout.check(&sample) {
            None | Some(Decision::Wait) => {}
            Some(Decision::Pass) => {
                self.plugin
                    .log
                    .state(LogLevel::Info, format_args!("the probation is over; the version stays"));
                self.plugin.rollout.save(sample.counts, true).await;
            }
            Some(Decision::RollBack(cause)) => {
                let known = version.known_version();
                self.plugin.log.state(LogLevel::Warn, format_args!("rolling back from {known}: {cause}"));
                // A newer file is loaded after that.
                pending.cancel();
                self.start_loading(pending, files, &Input::Found);
            }
        }
        self.schedule_check();
    }

    /// Loads the version that an operator has chosen, or ends the canary beside it.
    pub(super) async fn load_chosen_version(
        &mut self,
        pending: &mut PendingVersion,
        files: Option<PluginFiles>,
    ) {
        let Some(files) = files else { return };
        match self.plugin.rollout.requested() {
            Some(version) => {
                self.plugin.log.state(LogLevel::Info, format_args!("an operator chose {version}"));
            }
            None if self.canary.is_some() && !self.plugin.rollout.has_canary() => {
                return self.end_canary(pending).await;
            }
            // The canary that was rolled back is still being loaded.
            None => {}
        }
        pending.cancel();
        self.start_loading(pending, files, &Input::Found);
    }

    /// Records that no version runs any more.
    pub(super) async fn record_end(&mut self) {
        self.next_check = None;
        self.plugin.rollout.save(self.plugin.metrics.reconciles(), false).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilothouse_plugin::InstanceLimits;

    use super::*;
    use crate::guest_host::PluginServices;
    use crate::lifecycle::{Activity, Lifecycle};
    use crate::load::LoadServices;
    use crate::runtime::pending_version::LoadTask;
    use crate::runtime::{RecoveryState, ReloadOptions};

    /// A plugin whose version 2 is in probation and backs off.
    async fn failing() -> PluginTask {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let client = kube::Client::new(service, "default");
        let plugin = PluginServices::for_test("failing", client.clone());
        let lifecycle = Lifecycle::begin(
            plugin.name.clone(),
            "default",
            Arc::clone(&plugin.metrics),
            plugin.events.clone(),
            Default::default(),
        );
        let pool = Version::test_pool(&plugin, "done.wat", InstanceLimits::default()).await;
        for name in ["1", "2"] {
            let version = KnownVersion::for_test(name);
            plugin.rollout.record_installation(&Installation {
                file_digest: version.digest.clone(),
                version,
                probation: Some(Duration::from_secs(300)),
                counts: plugin.metrics.reconciles(),
                previous_backs_off: false,
                awaits_canary: false,
            });
        }
        let version = Version::for_test(pool, Arc::default());
        for _ in 0..5 {
            version.health.record_fault(Activity::Reconcile, None, &"it trapped");
        }
        let (services, options) = (LoadServices::for_test(client), ReloadOptions { requeue_all: true });
        let mut task =
            PluginTask::new(plugin, lifecycle, services, options, Arc::default(), RecoveryState::default());
        task.stable = Some(Arc::new(version));
        task
    }

    /// A load that waits for what the cluster has to provide.
    fn endless_load() -> LoadTask {
        tokio::spawn(std::future::pending())
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_fails_is_rolled_back_while_a_load_waits() {
        let mut task = failing().await;
        let mut pending = PendingVersion::default();
        let load = endless_load();
        let waiting = load.abort_handle();
        pending.load(PluginFiles::for_test(), load);
        task.check_versions(&mut pending, Some(PluginFiles::for_test())).await;
        assert_eq!(task.plugin.rollout.requested(), Some(KnownVersion::for_test("1")));
        while !waiting.is_finished() {
            tokio::task::yield_now().await;
        }
        assert!(task.next_check.is_some(), "the checks continue");
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_is_about_to_be_replaced_is_not_judged() {
        let mut task = failing().await;
        let mut pending = PendingVersion::default();
        pending.change_canary(None, Arc::clone(&task.running));
        task.check_versions(&mut pending, Some(PluginFiles::for_test())).await;
        assert_eq!(task.plugin.rollout.requested(), None);
        assert!(task.next_check.is_some(), "the checks continue");
    }
}
