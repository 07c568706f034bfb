//! The options of a server.

use std::sync::Arc;
use std::time::Duration;

use super::inner::ServerInner;
use super::metrics::Metrics;
use super::transport::Transport;
use super::{ApiServer, Faults, RequestLog};
use crate::access::Authorization;
use crate::bootstrap;
use crate::clock::{Clock, SystemClock};
use crate::openapi::DocumentCache;
use crate::state::{State, StateOptions};
use crate::storage::HistoryLimits;

/// The minor version of Kubernetes 1.x that is reported by default.
const DEFAULT_KUBERNETES_MINOR: u16 = 36;

/// Builds an [`ApiServer`]. The defaults suit development and tests.
#[must_use]
pub struct ApiServerBuilder {
    clock: Arc<dyn Clock>,
    history: HistoryLimits,
    first_revision: Option<u64>,
    bookmark_interval: Duration,
    faults_over_http: bool,
    kubernetes_minor: u16,
    authorization: Authorization,
    plain_http: bool,
    allow_anonymous: bool,
    allowed_hosts: Vec<String>,
    webhooks: bool,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            history: HistoryLimits { events: 16 * 1024, bytes: 128 * 1024 * 1024 },
            first_revision: None,
            bookmark_interval: Duration::from_secs(60),
            faults_over_http: false,
            kubernetes_minor: DEFAULT_KUBERNETES_MINOR,
            authorization: Authorization::default(),
            plain_http: false,
            allow_anonymous: false,
            allowed_hosts: Vec::new(),
            webhooks: true,
        }
    }
}

impl ApiServerBuilder {
    /// Sets the clock for timestamps; the system clock by default. Timers (bookmarks, timeouts) follow tokio's time.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets how many events of each resource are retained for watches to resume from: at least 1, by default 16384.
    /// The watch of a client that falls further behind ends.
    pub fn watch_history(mut self, events: usize) -> Self {
        self.history.events = events.max(1);
        self
    }

    /// Sets how many bytes of events of each resource are retained, approximately; 128 MiB by default.
    pub fn watch_history_bytes(mut self, bytes: usize) -> Self {
        self.history.bytes = bytes;
        self
    }

    /// Sets the resourceVersion before the first write; at least 1.
    ///
    /// By default it is the clock's time in milliseconds since 1970. Resource versions of an earlier process are
    /// meaningless in this one, and thus lie before its history: a client that reconnects after a restart gets 410 and
    /// lists again. This holds unless the earlier process wrote more than 1000 objects per second on average.
    pub fn first_revision(mut self, revision: u64) -> Self {
        self.first_revision = Some(revision);
        self
    }

    /// Sets the interval between the bookmarks of a watch that allows them; one minute by default, as in Kubernetes.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.bookmark_interval = interval;
        self
    }

    /// Sets whether faults can be injected over HTTP, at `/debug/faults`; false by default.
    pub fn faults_over_http(mut self, allowed: bool) -> Self {
        self.faults_over_http = allowed;
        self
    }

    /// Sets the minor version of Kubernetes 1.x that `/version` reports; 36 by default. The behaviour stays the same.
    pub fn kubernetes_minor(mut self, minor: u16) -> Self {
        self.kubernetes_minor = minor;
        self
    }

    /// Sets how requests are authorized; all are allowed by default. See [`Authorization::Rbac`].
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        self.authorization = authorization;
        self
    }

    /// Sets whether sockets are served without TLS; false by default. Without TLS, credentials are sent in clear text.
    pub fn plain_http(mut self, plain: bool) -> Self {
        self.plain_http = plain;
        self
    }

    /// Sets whether requests over a socket are accepted without credentials; false by default.
    ///
    /// With [`Authorization::AlwaysAllow`] such requests may do everything, with [`Authorization::Rbac`] what
    /// `system:anonymous` may. If they are not accepted, they get 401, except for `/healthz`, `/livez`, `/readyz` and
    /// `/version`.
    pub fn anonymous(mut self, allowed: bool) -> Self {
        self.allow_anonymous = allowed;
        self
    }

    /// Sets the DNS names under which clients reach a socket, in addition to IP addresses and `localhost`. Requests with
    /// any other `Host` get 403.
    pub fn allowed_hosts(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.allowed_hosts = names.into_iter().collect();
        self
    }

    /// Sets whether webhooks are called, for admission and for conversion; true by default. The server then sends requests to the URLs that
    /// users of the API configure. If it is false, writes ignore webhook configurations.
    pub fn webhooks(mut self, called: bool) -> Self {
        self.webhooks = called;
        self
    }

    /// Builds the server, with the namespaces and, under RBAC, the roles that every cluster has. Starts no task; see
    /// [`ApiServer::run_controllers`].
    #[must_use]
    pub fn build(self) -> ApiServer {
        let first_revision = self
            .first_revision
            .unwrap_or_else(|| u64::try_from(self.clock.now().as_millisecond()).unwrap_or(1));
        let state = State::new(StateOptions {
            clock: self.clock,
            history: self.history,
            first_revision,
            bookmark_interval: self.bookmark_interval,
            authorization: self.authorization,
            allow_anonymous: self.allow_anonymous,
            webhooks: self.webhooks,
        });
        bootstrap::create_initial_objects(&state);
        let inner = ServerInner {
            state: Arc::new(state),
            transport: Transport::new(!self.plain_http, self.allowed_hosts),
            documents: DocumentCache::new(),
            faults: Faults::default(),
            log: RequestLog::default(),
            metrics: Metrics::default(),
            faults_over_http: self.faults_over_http,
            kubernetes_minor: self.kubernetes_minor,
        };
        ApiServer { inner: Arc::new(inner) }
    }
}

impl std::fmt::Debug for ApiServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServerBuilder")
            .field("history", &self.history)
            .field("first_revision", &self.first_revision)
            .field("bookmark_interval", &self.bookmark_interval)
            .field("faults_over_http", &self.faults_over_http)
            .field("kubernetes_minor", &self.kubernetes_minor)
            .field("authorization", &self.authorization)
            .field("plain_http", &self.plain_http)
            .field("allow_anonymous", &self.allow_anonymous)
            .field("allowed_hosts", &self.allowed_hosts)
            .field("webhooks", &self.webhooks)
            .finish_non_exhaustive()
    }
}
