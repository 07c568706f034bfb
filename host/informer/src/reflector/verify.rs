//! Verifies that the server still has the history that the informer knows.
//!
//! After a lost connection the watch is reopened at once. The server may have been restored from a backup meanwhile, and a
//! restored kube-apiserver sends nothing until it has passed the requested version. If such a watch is idle for some seconds,
//! it is closed and the server is asked for its version.

use std::time::Duration;

use tokio::time::Instant;

use super::phase::{AfterWait, Phase};
use super::state_machine::{Action, StateMachine};
use super::version_order::VersionStep;
use crate::failure::{Failure, FailureKind};
use crate::list_watch::ListParams;

impl StateMachine {
    /// Returns the idle time after which the current watch must be verified; `None` if it need not be.
    pub(crate) fn verification_idle_timeout(&self) -> Option<Duration> {
        match self.phase {
            Phase::Watching(_) => self.verification_idle_timeout,
            _ => None,
        }
    }

    /// Whether the last failure means that the server is unreachable or does not serve requests.
    pub(crate) fn is_server_unavailable(&self) -> bool {
        self.reported.error.as_ref().is_some_and(|failure| failure.kind.is_lost_server())
    }

    /// Draws a random delay that spreads informers which resume together.
    pub(crate) fn resume_jitter(&mut self) -> Duration {
        self.backoff.resume_jitter()
    }

    /// Schedules a verification after a connection failure, because the server's state is in doubt.
    pub(super) fn schedule_verification(&mut self, failure: &Failure) {
        if failure.kind.is_lost_server() && self.verification_idle_timeout.is_none() {
            self.verification_idle_timeout = Some(self.backoff.verification_idle_timeout());
        }
    }

    /// Lists one item at the last version or later. A server that has not reached that version answers with an error.
    pub(super) fn verify(&mut self) -> Action {
        let last = self.reported.last_version.clone();
        self.verify_at(last)
    }

    /// Lists one item of the server's current state. Unlike [`verify`](Self::verify), this request is answered at once and never
    /// refused as too old.
    pub(super) fn start_verification(&mut self) -> Action {
        self.verify_at(None)
    }

    fn verify_at(&mut self, resource_version: Option<String>) -> Action {
        self.phase = Phase::Verifying;
        Action::List(ListParams { resource_version, limit: Some(1), continue_token: None })
    }

    pub(super) fn on_verification_page(&mut self, version: &str, now: Instant) -> Action {
        if self.order.classify(self.reported.last_version.as_deref(), version) == VersionStep::Backward {
            self.suspect_restore(version);
            return self.start_list(now);
        }
        self.verification_idle_timeout = None;
        self.resume()
    }

    pub(super) fn verification_failed(&mut self, failure: &Failure, now: Instant) -> Action {
        match failure.kind {
            FailureKind::Expired | FailureKind::TooLargeResourceVersion => {
                self.version_unavailable = true;
                self.start_list(now)
            }
            FailureKind::TooManyRequests => self.wait_retry_after(AfterWait::Watch, failure, now),
            _ => self.back_off(AfterWait::Watch, now),
        }
    }
}
