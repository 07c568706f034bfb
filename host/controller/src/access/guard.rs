//! The task that keeps a version's access up to date.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pilothouse_informer::supervise::{Panic, supervise};
use pilothouse_informer::{Failure, FailureKind, Subscription};
use pilothouse_plugin::LogLevel;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::command;
use super::course::{AGAIN, Course};
use super::permission::{Missing, Permission};
use super::reviewer::{Reviewed, Reviewer};
use crate::logs::PluginLog;
use crate::name::PluginName;

/// How often the host's own watches are checked: a right that the host loses does not end an open watch.
const LOOK: Duration = Duration::from_secs(10);

/// Keeps the access of one version up to date, in a task of its own.
pub(crate) struct Guard {
    pub(crate) plugin: PluginName,
    pub(crate) log: PluginLog,
    pub(crate) permission: Arc<Permission>,
    /// The host's watches for the plugin. Weak references, because the version owns the subscriptions.
    pub(crate) watched: Vec<(Arc<str>, Weak<Subscription>)>,
    /// The reviewer of the plugin's service account, and the review interval; `None` if the plugin reads as
    /// the host.
    pub(crate) reviews: Option<(Reviewer, Duration)>,
}

impl Guard {
    /// Starts the task, after a review that allowed everything. The task ends when the handle is dropped.
    pub(crate) fn start(self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut guard = self;
            let plugin = guard.plugin.clone();
            let report =
                |panic: &Panic| tracing::error!(%plugin, "the task that monitors its rights {panic}");
            supervise(&mut guard, |guard| Box::pin(guard.run()), report).await;
        }))
    }

    async fn run(&self) {
        let mut review = self.reviews.as_ref().map(|(_, every)| {
            let course = Course::new(*every, Instant::now());
            let first = Instant::now() + course.period(jitter());
            (course, first)
        });
        let mut lacking = Vec::new();
        loop {
            let look = if self.permission.is_held() { AGAIN } else { LOOK };
            let next = review.as_ref().map(|(_, at)| *at).into_iter().chain([Instant::now() + look]).min();
            sleep_until(next.unwrap_or_else(Instant::now)).await;
            if let (Some((course, at)), Some((reviewer, _))) = (&mut review, &self.reviews)
                && *at <= Instant::now()
            {
                // Boxed: every plugin has this task, and most have nothing to review.
                let reviewed = Box::pin(reviewer.review()).await;
                if let Reviewed::Unknown(error) = &reviewed {
                    tracing::debug!(plugin = %self.plugin, "its rights cannot be reviewed: {error}");
                }
                let step = course.step(reviewed, Instant::now(), jitter());
                lacking = step.missing.unwrap_or(lacking);
                *at = Instant::now() + step.next;
            }
            self.tell(self.forbidden_to_the_host().chain(lacking.iter().cloned()).collect());
        }
    }

    fn forbidden_to_the_host(&self) -> impl Iterator<Item = Missing> {
        self.watched.iter().filter_map(|(watch, subscription)| {
            let error = subscription.upgrade()?.status().error?;
            if error.kind != FailureKind::Forbidden {
                return None;
            }
            let text = forbidden(watch, &error, &self.plugin);
            Some(Missing { watch: Some(Arc::clone(watch)), text })
        })
    }

    fn tell(&self, missing: Vec<Missing>) {
        if !self.permission.set_rights(missing) {
            return;
        }
        match self.permission.why() {
            Some(why) => {
                self.log.state(LogLevel::Warn, format_args!("waiting, a right was taken away: {why}"));
            }
            None => self.log.state(LogLevel::Info, format_args!("it has its rights again, and goes on")),
        }
    }
}

/// The message for a watch that the API server forbids the host.
pub(crate) fn forbidden(watch: &str, error: &Failure, plugin: &PluginName) -> String {
    format!("watch {watch:?}: {error}, with {}", command(plugin))
}

fn jitter() -> f64 {
    rand::random()
}
