//! The task that keeps a version's access up to date.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pilothouse_informer::supervise::{TaskPanic, supervise};
use pilothouse_informer::{Failure, FailureKind, Subscription};
use pilothouse_plugin::LogLevel;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::access_state::{Access, Suspension};
use super::rbac_command;
use super::review_schedule::{RETRY_INTERVAL, ReviewSchedule};
use super::reviewer::{ReviewOutcome, Reviewer};
use crate::config::sidecar_location::SidecarLocation;
use crate::environment::Randomness;
use crate::lifecycle::WaitingFor;
use crate::logs::PluginLog;
use crate::name::PluginName;

/// How often the host's own watches are checked: a permission that the host loses does not end an open watch.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Keeps the access of one version up to date, in a task of its own.
pub(crate) struct AccessMonitor {
    pub(crate) plugin: PluginName,
    /// Where the operator writes the plugin's sidecar, for the remedy.
    pub(crate) place: SidecarLocation,
    pub(crate) log: PluginLog,
    pub(crate) access: Arc<Access>,
    /// The host's watches for the plugin. Weak references, because the version owns the subscriptions.
    pub(crate) watched: Vec<(Arc<str>, Weak<Subscription>)>,
    /// The source of the jitter between reviews.
    pub(crate) randomness: Randomness,
    /// The reviewer of the plugin's service account, and the review interval; `None` if the plugin reads as
    /// the host.
    pub(crate) reviews: Option<(Reviewer, Duration)>,
}

impl AccessMonitor {
    /// Starts the task, after a review that allowed everything. The task ends when the handle is dropped.
    pub(crate) fn start(self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut monitor = self;
            let plugin = monitor.plugin.clone();
            let report = |panic: &TaskPanic| tracing::error!(%plugin, "the task that monitors its permissions {panic}");
            supervise(&mut monitor, |monitor| Box::pin(monitor.run()), report).await;
        }))
    }

    async fn run(&self) {
        let mut review = self.reviews.as_ref().map(|(_, interval)| {
            let schedule = ReviewSchedule::new(*interval, Instant::now());
            let first = Instant::now() + schedule.period(self.randomness.fraction());
            (schedule, first)
        });
        let mut missing_permissions = Vec::new();
        loop {
            let check_interval = if self.access.is_suspended() { RETRY_INTERVAL } else { CHECK_INTERVAL };
            let next =
                review.as_ref().map(|(_, at)| *at).into_iter().chain([Instant::now() + check_interval]).min();
            sleep_until(next.unwrap_or_else(Instant::now)).await;
            if let (Some((schedule, at)), Some((reviewer, _))) = (&mut review, &self.reviews)
                && *at <= Instant::now()
            {
                // Boxed: every plugin has this task, and most have nothing to review.
                let outcome = Box::pin(reviewer.review()).await;
                if let ReviewOutcome::Unknown(error) = &outcome {
                    tracing::debug!(plugin = %self.plugin, "its permissions cannot be reviewed: {error}");
                }
                let step = schedule.step(outcome, Instant::now(), self.randomness.fraction());
                missing_permissions = step.missing.unwrap_or(missing_permissions);
                *at = Instant::now() + step.next;
            }
            self.set_missing(self.forbidden_watches().chain(missing_permissions.iter().cloned()).collect());
        }
    }

    fn forbidden_watches(&self) -> impl Iterator<Item = Suspension> {
        self.watched.iter().filter_map(|(watch, subscription)| {
            let error = subscription.upgrade()?.status().error?;
            if error.kind != FailureKind::Forbidden {
                return None;
            }
            let reason = forbidden(watch, &error, &self.plugin, self.place);
            Some(Suspension { watch: Some(Arc::clone(watch)), reason })
        })
    }

    fn set_missing(&self, missing: Vec<Suspension>) {
        if !self.access.set_missing_permissions(missing) {
            return;
        }
        match self.access.reason() {
            Some(reason) => {
                self.log.state(LogLevel::Warn, format_args!("waiting: a permission was revoked: {reason}"));
            }
            None => {
                self.log
                    .state(LogLevel::Info, format_args!("all permissions are granted again; work continues"));
            }
        }
    }
}

/// The reason for a watch that the API server forbids the host.
pub(crate) fn forbidden(
    watch: &str,
    error: &Failure,
    plugin: &PluginName,
    place: SidecarLocation,
) -> WaitingFor {
    WaitingFor::HostPermission(format!("watch {watch:?}: {error}, with {}", rbac_command(plugin, place)))
}
