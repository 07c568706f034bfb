use std::sync::Arc;
use std::time::Duration;

use super::transport::Transport;
use super::{ApiServer, State};
use crate::access::{self, Access, Authorization};
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
    plain_http: bool,
    anonymous: bool,
    hosts: Vec<String>,
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
            plain_http: false,
            anonymous: false,
            hosts: Vec::new(),
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

    /// Serves sockets without TLS. Credentials then cross the wire in clear text.
    pub fn plain_http(mut self, plain: bool) -> Self {
        self.plain_http = plain;
        self
    }

    /// Takes requests over a socket without credentials: with [`Authorization::AlwaysAllow`] they may do everything, with
    /// [`Authorization::Rbac`] what `system:anonymous` may. By default they are answered with 401, except for `/healthz`,
    /// `/livez`, `/readyz` and `/version`.
    pub fn anonymous(mut self, allowed: bool) -> Self {
        self.anonymous = allowed;
        self
    }

    /// DNS names by which clients call a socket, beside IP addresses and `localhost`; requests for others are refused with 403.
    pub fn allowed_hosts(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.hosts = names.into_iter().collect();
        self
    }

    /// Makes the server, with the namespaces that every cluster has. Starts no task: see
    /// [`ApiServer::run_controllers`].
    #[must_use]
    pub fn build(self) -> ApiServer {
        let first_revision = self
            .first_revision
            .unwrap_or_else(|| u64::try_from(self.clock.now().as_millisecond()).unwrap_or(1));
        let (authorization, anonymous) = (self.authorization, self.anonymous);
        let access = |storage: &_, clock| Access::new(authorization, anonymous, storage, clock);
        let transport = Transport::new(!self.plain_http, self.hosts);
        let mut state =
            State::new(self.clock, self.history, first_revision, self.bookmark_interval, access, transport);
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
            .field("plain_http", &self.plain_http)
            .field("anonymous", &self.anonymous)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}
