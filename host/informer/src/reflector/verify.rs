//! Whether the server still has the history that the informer knows: when it is asked, and what follows from its answer.
//!
//! A watch that follows a lost connection is opened at once. The server may have been restored from a backup meanwhile, and a restored
//! kube-apiserver keeps silent until it has passed the version that was asked for. So such a watch that tells nothing for some seconds is ended, and
//! the server is asked for its version.

use std::time::Duration;

use tokio::time::Instant;

use super::state_machine::{Action, StateMachine};
use super::version_order::VersionStep;
use super::phase::{AfterWait, Phase};
use crate::failure::{Failure, FailureKind};
use crate::list_watch::ListParams;

impl StateMachine {
    /// After how much silence the watch under way must be verified, if it must.
    pub(crate) fn verification_timeout(&self) -> Option<Duration> {
        match self.phase {
            Phase::Watching(_) => self.verify_after,
            _ => None,
        }
    }

    /// Whether what it waits for is a server that cannot be reached or does not serve.
    pub(crate) fn is_server_unavailable(&self) -> bool {
        self.reported.error.as_ref().is_some_and(|failure| failure.kind.is_lost_server())
    }

    /// A moment by which informers that resume together are spread.
    pub(crate) fn resume_jitter(&mut self) -> Duration {
        self.backoff.resume_jitter()
    }

    /// The state of the server is in doubt after a failure of its connection.
    pub(super) fn schedule_verification(&mut self, failure: &Failure) {
        if failure.kind.is_lost_server() && self.verify_after.is_none() {
            self.verify_after = Some(self.backoff.verification_delay());
        }
    }

    /// Asks for one item at the last version or later: a server that is not there yet says so.
    pub(super) fn probe(&mut self) -> Action {
        let last = self.reported.last_version.clone();
        self.probe_at(last)
    }

    /// Asks for one item as the server has it now. Unlike [`probe`](Self::probe), it is never refused as too old, and answered at once.
    pub(super) fn start_verification(&mut self) -> Action {
        self.probe_at(None)
    }

    fn probe_at(&mut self, resource_version: Option<String>) -> Action {
        self.phase = Phase::Probing;
        Action::List(ListParams { resource_version, limit: Some(1), continue_token: None })
    }

    pub(super) fn on_probe_page(&mut self, version: &str, now: Instant) -> Action {
        if self.order.classify(self.reported.last_version.as_deref(), version) == VersionStep::Backward {
            self.suspect_restore(version);
            return self.start_list(now);
        }
        self.verify_after = None;
        self.resume()
    }

    pub(super) fn probe_failed(&mut self, failure: &Failure, now: Instant) -> Action {
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
