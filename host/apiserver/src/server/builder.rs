//! The options of a server.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_listen::{CertificateError, ClientAuthority, ServerCertificate};

use super::audit::AuditLog;
use super::initial::InitialObjects;
use super::inner::ServerInner;
use super::metrics::Metrics;
use super::snapshots::Snapshots;
use super::transport::{CertificateFromFiles, Transport};
use super::{ApiServer, Faults, RequestLog};
use crate::access::Authorization;
use crate::admission_plugins::{AdmissionPlugin, AdmissionPlugins};
use crate::bootstrap;
use crate::clock::{Clock, SystemClock};
use crate::cluster_ip_range::ClusterIpRange;
use crate::identifiers::Identifiers;
use crate::openapi::DocumentCache;
use crate::persistence::DataDirectory;
#[cfg(feature = "persistence")]
use crate::persistence::DataError;
#[cfg(feature = "persistence")]
use crate::rest::restore;
use crate::state::{State, StateOptions};
use crate::storage::{ChangeLog, HistoryLimits, Journal};

/// The minor version of Kubernetes 1.x that is reported by default.
const DEFAULT_KUBERNETES_MINOR: u16 = 36;

/// Builds an [`ApiServer`]. The defaults suit development and tests.
#[must_use]
pub struct ApiServerBuilder {
    clock: Arc<dyn Clock>,
    seed: Option<u64>,
    history: HistoryLimits,
    first_revision: Option<u64>,
    initial: Option<InitialObjects>,
    bookmark_interval: Duration,
    faults_over_http: bool,
    snapshots_over_http: bool,
    kubernetes_minor: u16,
    authorization: Authorization,
    plain_http: bool,
    allow_anonymous: bool,
    allowed_hosts: Vec<String>,
    certificate: Option<CertificateFromFiles>,
    client_authority: String,
    webhooks: bool,
    plugins: AdmissionPlugins,
    cluster_ips: ClusterIpRange,
    pod_removal_pause: Duration,
    record_commits: bool,
    audit: Option<AuditLog>,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            seed: None,
            history: HistoryLimits { events: 16 * 1024, bytes: 128 * 1024 * 1024 },
            first_revision: None,
            initial: None,
            bookmark_interval: Duration::from_secs(60),
            faults_over_http: false,
            snapshots_over_http: false,
            kubernetes_minor: DEFAULT_KUBERNETES_MINOR,
            authorization: Authorization::default(),
            plain_http: false,
            allow_anonymous: false,
            allowed_hosts: Vec::new(),
            certificate: None,
            client_authority: String::new(),
            webhooks: true,
            plugins: AdmissionPlugins::default(),
            cluster_ips: ClusterIpRange::default(),
            pod_removal_pause: Duration::ZERO,
            record_commits: false,
            audit: None,
        }
    }
}

impl ApiServerBuilder {
    /// Sets the clock for timestamps; the system clock by default. Timers (bookmarks, timeouts) follow tokio's time.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the seed from which UIDs, generated names, tokens of service accounts and allocated addresses follow, for tests and simulations.
    /// By default they are unpredictable. The order of concurrent requests decides which of them gets which identifier.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
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

    /// Sets the objects with which the server begins, in place of creating them: those of a server that was built with the same options, as
    /// [`ApiServer::initial_objects`] returned them. Resource versions go on from those of that server.
    pub fn initial_objects(mut self, objects: InitialObjects) -> Self {
        self.initial = Some(objects);
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

    /// Sets whether snapshots of all objects can be taken and restored over HTTP, at `/debug/snapshot`; false by default.
    pub fn snapshots_over_http(mut self, allowed: bool) -> Self {
        self.snapshots_over_http = allowed;
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

    /// Sets the certificate with which sockets are served, followed by those of its authorities, and its key, both in PEM. By default, the
    /// server creates an authority and a certificate. The kubeconfig then contains these certificates for clients to trust.
    ///
    /// # Errors
    /// If a text is not PEM, or has no certificate or key.
    pub fn serving_certificate(mut self, certificates: &str, key: &str) -> Result<Self, CertificateError> {
        let certificate = ServerCertificate::from_pem(certificates.as_bytes(), key.as_bytes())?;
        self.certificate = Some(CertificateFromFiles { certificate, pem: certificates.to_owned() });
        Ok(self)
    }

    /// Sets the authority, in PEM, whose certificates clients may use as credentials on a socket with TLS. The common name is the user, and
    /// the organizations are the groups. Certificates that the server itself has signed for the signer `kubernetes.io/kube-apiserver-client`
    /// are always credentials.
    ///
    /// # Errors
    /// If the text is not PEM, or has no certificate that can be used.
    pub fn client_authority(mut self, certificates: &str) -> Result<Self, CertificateError> {
        ClientAuthority::from_pem(certificates.as_bytes())?;
        self.client_authority = format!("{}\n", certificates.trim_end());
        Ok(self)
    }

    /// Sets whether new PersistentVolumeClaims and PersistentVolumes get the finalizers of Kubernetes' admission plugin
    /// `StorageObjectInUseProtection`; true by default. Controllers remove them, so without controllers, deleted ones stay.
    pub fn storage_protection(mut self, protects: bool) -> Self {
        let set = if protects { AdmissionPlugins::enable } else { AdmissionPlugins::disable };
        set(&mut self.plugins, AdmissionPlugin::StorageObjectInUseProtection);
        self
    }

    /// Enables built-in admission plugins. All are enabled by default, except [`AdmissionPlugin::ServiceAccount`], of which only a part acts:
    /// a Pod without a service account gets the name `default`, whether or not that account exists.
    ///
    /// With `ServiceAccount`, a Pod whose account does not exist gets 403; a request waits up to 1.35 s for the account `default`, which a
    /// controller creates in each namespace. This needs a tokio runtime with timers.
    pub fn enable_admission_plugins(mut self, plugins: impl IntoIterator<Item = AdmissionPlugin>) -> Self {
        plugins.into_iter().for_each(|plugin| self.plugins.enable(plugin));
        self
    }

    /// Disables built-in admission plugins. With `ServiceAccount`, Pods get no service account, as in envtest.
    pub fn disable_admission_plugins(mut self, plugins: impl IntoIterator<Item = AdmissionPlugin>) -> Self {
        plugins.into_iter().for_each(|plugin| self.plugins.disable(plugin));
        self
    }

    /// Sets the range from which Services get their cluster IPs; 10.96.0.0/12 by default. The Service `kubernetes` has its first address.
    pub fn service_cluster_ip_range(mut self, range: ClusterIpRange) -> Self {
        self.cluster_ips = range;
        self
    }

    /// Sets how long a Pod without a grace period, such as one without a Node, stays marked for deletion before a request removes it; zero by
    /// default. kube-apiserver writes to etcd in between, and controllers that react to `deletionTimestamp` rely on this time. It needs a tokio
    /// runtime with timers. Controllers of the server and deletions of collections do not wait.
    pub fn pod_removal_pause(mut self, pause: Duration) -> Self {
        self.pod_removal_pause = pause;
        self
    }

    /// Sets whether webhooks are called, for admission and for conversion; true by default. The server then sends requests to the URLs that
    /// users of the API configure. If it is false, writes ignore webhook configurations.
    pub fn webhooks(mut self, called: bool) -> Self {
        self.webhooks = called;
        self
    }

    /// Sets whether writes are recorded for [`ApiServer::take_commits`]; false by default. They take memory until they are taken.
    pub fn record_commits(mut self, recorded: bool) -> Self {
        self.record_commits = recorded;
        self
    }

    /// Sets a file to which an event of `audit.k8s.io/v1` is appended for each answered request, as kube-apiserver does at the level
    /// `Metadata`; none by default. Nothing limits the size of the file.
    ///
    /// # Errors
    /// If the file cannot be opened for writing.
    pub fn audit_log(mut self, file: &Path) -> io::Result<Self> {
        self.audit = Some(AuditLog::open(file)?);
        Ok(self)
    }

    /// Builds the server, with the namespaces and, under RBAC, the roles that every cluster has. Starts no task; see
    /// [`ApiServer::run_controllers`]. Objects are kept in memory only.
    #[must_use]
    pub fn build(self) -> ApiServer {
        let initial = self.initial.clone();
        let first_revision =
            initial.as_ref().map_or_else(|| self.initial_revision(), InitialObjects::revision);
        let journal = self.journal();
        let state = self.state(first_revision, None, journal.as_ref());
        match initial {
            Some(initial) => initial.fill(&state.storage),
            None => bootstrap::create_initial_objects(&state),
        }
        self.server(state, None, Snapshots::default(), journal)
    }

    /// Builds the server as [`Self::build`] does, with objects and snapshots that are kept in a directory. Creates the directory if it
    /// does not exist.
    ///
    /// The answer to a write is sent when the write is on disk. Objects keep their UIDs and resourceVersions. Watches from before the
    /// start get 410.
    ///
    /// # Errors
    /// If the directory cannot be used, is in use, or contains a damaged database or one of another program. Its objects are left as they are.
    #[cfg(feature = "persistence")]
    pub fn build_with_data(self, directory: &Path) -> Result<ApiServer, DataError> {
        let data = DataDirectory::open(directory)?;
        let first_revision = self.initial_revision().max(data.first_revision()?);
        let journal = self.journal();
        let state = self.state(first_revision, Some(&data), journal.as_ref());
        restore::load(&state, &data)?;
        let snapshots = Snapshots::load(&data, &state.storage)?;
        bootstrap::create_initial_objects(&state);
        Ok(self.server(state, Some(data), snapshots, journal))
    }

    fn initial_revision(&self) -> u64 {
        let clock = || u64::try_from(self.clock.now().as_millisecond()).unwrap_or(1);
        self.first_revision.unwrap_or_else(clock)
    }

    fn journal(&self) -> Option<Arc<Journal>> {
        self.record_commits.then(Arc::default)
    }

    fn state(
        &self,
        first_revision: u64,
        data: Option<&DataDirectory>,
        journal: Option<&Arc<Journal>>,
    ) -> State {
        let journal = journal.map(|journal| Arc::clone(journal) as Arc<dyn ChangeLog>);
        State::new(StateOptions {
            clock: Arc::clone(&self.clock),
            identifiers: self.seed.map_or_else(Identifiers::default, Identifiers::from_seed),
            history: self.history,
            first_revision,
            bookmark_interval: self.bookmark_interval,
            authorization: self.authorization,
            allow_anonymous: self.allow_anonymous,
            webhooks: self.webhooks,
            plugins: self.plugins,
            cluster_ips: self.cluster_ips,
            pod_removal_pause: self.pod_removal_pause,
            change_logs: data.map(DataDirectory::log).into_iter().chain(journal).collect(),
        })
    }

    fn server(
        self,
        state: State,
        data: Option<DataDirectory>,
        snapshots: Snapshots,
        journal: Option<Arc<Journal>>,
    ) -> ApiServer {
        let inner = ServerInner {
            state: Arc::new(state),
            transport: Transport::new(!self.plain_http, self.allowed_hosts)
                .with_certificates(self.certificate, self.client_authority),
            documents: DocumentCache::new(),
            faults: Faults::default(),
            log: RequestLog::default(),
            metrics: Metrics::default(),
            audit: self.audit,
            data,
            journal,
            snapshots,
            snapshots_over_http: self.snapshots_over_http,
            faults_over_http: self.faults_over_http,
            kubernetes_minor: self.kubernetes_minor,
        };
        ApiServer { inner: Arc::new(inner) }
    }
}

impl std::fmt::Debug for ApiServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServerBuilder")
            .field("seed", &self.seed)
            .field("history", &self.history)
            .field("first_revision", &self.first_revision)
            .field("bookmark_interval", &self.bookmark_interval)
            .field("faults_over_http", &self.faults_over_http)
            .field("snapshots_over_http", &self.snapshots_over_http)
            .field("kubernetes_minor", &self.kubernetes_minor)
            .field("authorization", &self.authorization)
            .field("plain_http", &self.plain_http)
            .field("allow_anonymous", &self.allow_anonymous)
            .field("allowed_hosts", &self.allowed_hosts)
            .field("webhooks", &self.webhooks)
            .field("plugins", &self.plugins)
            .field("cluster_ips", &self.cluster_ips)
            .field("pod_removal_pause", &self.pod_removal_pause)
            .field("record_commits", &self.record_commits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_equal_seeds_create_objects_with_equal_uids() {
        let uid = |builder: ApiServerBuilder| {
            let namespace = builder.build().inner.state.namespaces.get("", "default").expect("it exists");
            namespace.uid.clone()
        };
        let seeded = || uid(ApiServer::builder().seed(7));
        assert_eq!(seeded(), seeded());
        assert_ne!(seeded(), uid(ApiServer::builder()));
    }
}
