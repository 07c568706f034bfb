use std::sync::Arc;
use std::time::Duration;

use super::{ApiServer, State};
use crate::access::{self, Authorization};
use crate::clock::{Clock, SystemClock};
use crate::controllers;
use crate::storage::HistoryLimits;

/// Options of an [`ApiServer`]. The defaults are fit for development and tests.
#[must_use]
pub struct ApiServerBuilder {
    clock: Arc<dyn Clock>,
    history: HistoryLimits,
    first_revision: Option<u64>,
    bookmark_interval: Duration,
    faults_over_http: bool,
    authorization: Authorization,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            history: HistoryLimits { events: 16 * 1024, bytes: 128 * 1024 * 1024 },
            first_revision: None,
            bookmark_interval: Duration::from_secs(60),
            faults_over_http: false,
            authorization: Authorization::default(),
        }
    }
}

impl ApiServerBuilder {
    /// The clock that timestamps are read from. Timers (bookmarks, time-outs) follow tokio's time.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How many events of each resource are kept for watches to resume from; at least 1. A watcher that falls further
    /// behind is cut.
    pub fn watch_history(mut self, events: usize) -> Self {
        self.history.events = events.max(1);
        self
    }

    /// About how many bytes of events are kept for each resource, whatever their number.
    pub fn watch_history_bytes(mut self, bytes: usize) -> Self {
        self.history.bytes = bytes;
        self
    }

    /// The resourceVersion before the first write; at least 1. By default it is the clock's time in milliseconds since
    /// 1970, so that a client that comes back to a server that was started again is answered 410 and lists anew: the
    /// versions that it knows mean nothing in this process. That holds unless the process before wrote more than 1000
    /// objects a second for as long as it lived.
    pub fn first_revision(mut self, revision: u64) -> Self {
        self.first_revision = Some(revision);
        self
    }

    /// How often a watch that allows bookmarks gets one; a minute by default, as in Kubernetes.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.bookmark_interval = interval;
        self
    }

    /// Whether faults can be injected over HTTP, at `/debug/faults`.
    pub fn faults_over_http(mut self, allowed: bool) -> Self {
        self.faults_over_http = allowed;
        self
    }

    /// What requests may do; everything by default. See [`Authorization::Rbac`].
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        self.authorization = authorization;
        self
    }

    /// Makes the server, with the namespaces that every cluster has. Starts no task: see
    /// [`ApiServer::run_controllers`].
    #[must_use]
    pub fn build(self) -> ApiServer {
        let first_revision = self
            .first_revision
            .unwrap_or_else(|| u64::try_from(self.clock.now().as_millisecond()).unwrap_or(1));
        let mut state =
            State::new(self.clock, self.history, first_revision, self.bookmark_interval, self.authorization);
        state.faults_over_http = self.faults_over_http;
        controllers::bootstrap(&state);
        if state.access.is_enforced() {
            access::bootstrap(&state);
        }
        ApiServer { state: Arc::new(state) }
    }
}

impl std::fmt::Debug for ApiServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServerBuilder")
            .field("history", &self.history)
            .field("first_revision", &self.first_revision)
            .field("bookmark_interval", &self.bookmark_interval)
            .field("faults_over_http", &self.faults_over_http)
            .field("authorization", &self.authorization)
            .finish_non_exhaustive()
    }
}
