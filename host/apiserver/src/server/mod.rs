//! The public API of the server: builder, tower service, listener, kubeconfig, fault injection and request counts.

mod audit;
mod builder;
mod commits;
mod debug;
mod faults;
mod handle;
mod health;
mod initial;
mod inner;
mod kubeconfig;
mod metrics;
mod request_log;
mod service;
mod snapshots;
mod transport;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use pilothouse_listen::{CertificateError, ServeError};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use builder::ApiServerBuilder;
pub use commits::{Commit, CommittedObject};
pub use faults::{Faults, Matcher};
pub use initial::InitialObjects;
use inner::ServerInner;
pub use kubeconfig::KubeconfigError;
pub use request_log::{RequestCount, RequestLog};
pub use service::ApiService;

use crate::controllers::{self, ControllerOptions};
use crate::status::Status;
use crate::user::User;

/// A Kubernetes API server, with its objects in memory.
///
/// Cheap to clone; all clones are the same server. Its objects are dropped with the last clone, service and watch. With
/// [`ApiServerBuilder::build_with_data`], they are also on disk.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<ServerInner>,
}

impl ApiServer {
    /// Returns a builder with the default options.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// Returns the server as a tower service, for `kube::Client::new(server.service(), "default")`, without a socket.
    ///
    /// Requests act as the administrator unless they carry credentials or impersonate another user.
    #[must_use]
    pub fn service(&self) -> ApiService {
        let admin = Arc::clone(self.inner.state.access.admin());
        ApiService::in_process(Arc::clone(&self.inner), admin)
    }

    /// Returns [`ApiServer::service`] for requests of `user`, such as [`User::service_account`].
    #[must_use]
    pub fn service_as(&self, user: User) -> ApiService {
        ApiService::in_process(Arc::clone(&self.inner), Arc::new(user))
    }

    /// Returns a kubeconfig for the server at `address`, with the CA certificate and, where they are required, the
    /// administrator's credentials. It is JSON, which is valid YAML.
    ///
    /// # Errors
    /// If the CA certificate cannot be generated.
    pub fn kubeconfig(&self, address: SocketAddr) -> Result<String, CertificateError> {
        kubeconfig::render(&self.inner.transport, address, self.inner.state.access.admin_token())
    }

    /// Returns the URL of a listener at `address`.
    #[must_use]
    pub fn url(&self, address: SocketAddr) -> String {
        self.inner.transport.url(address)
    }

    /// Writes [`ApiServer::kubeconfig`] to `path` and creates missing parent directories.
    ///
    /// The file is replaced atomically: a reader sees either the old or the complete new content. Only its owner may
    /// read it.
    ///
    /// # Errors
    /// If the directory or the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path, address: SocketAddr) -> Result<(), KubeconfigError> {
        kubeconfig::write(path, || self.kubeconfig(address))
    }

    /// Serves HTTP/1.1 and HTTP/2, with TLS unless [`ApiServerBuilder::plain_http`] is set, until `shutdown` is
    /// cancelled. Then it ends running watches, completes other requests, and returns.
    ///
    /// # Errors
    /// If the listener has no local address or its certificate cannot be generated.
    ///
    /// # Cancellation safety
    /// Dropping the future closes the listener; open connections continue until they end by themselves.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
        let (listener, guard) = self.inner.transport.bind(listener)?;
        let service = ApiService::over_http(Arc::clone(&self.inner), guard, shutdown.clone());
        pilothouse_listen::serve(listener, service, shutdown).await;
        Ok(())
    }

    /// Starts all built-in controllers: workloads, garbage collection, namespaces, service accounts, endpoints, a
    /// scheduler and simulated kubelets. They stop when `shutdown` is cancelled; the handle then completes.
    ///
    /// Without them the server behaves like kube-apiserver without a controller manager: owner references have no
    /// effect, and a namespace that is being deleted stays.
    pub fn run_controllers(&self, shutdown: CancellationToken) -> JoinHandle<()> {
        self.run_controllers_with(ControllerOptions::default(), shutdown)
    }

    /// Starts the selected controllers, like [`Self::run_controllers`].
    ///
    /// Timers follow tokio's time, and times in objects follow the server's clock; [`crate::TokioClock`] keeps both
    /// in step when time is paused.
    pub fn run_controllers_with(
        &self,
        options: ControllerOptions,
        shutdown: CancellationToken,
    ) -> JoinHandle<()> {
        let ca_certificate = self.inner.transport.known_ca_certificate();
        let authority = self.inner.transport.signing_authority();
        let options = ControllerOptions { ca_certificate, authority, ..options };
        tokio::spawn(controllers::run(Arc::clone(&self.inner.state), &options, shutdown))
    }

    /// Waits until all writes up to now are on disk; returns at once if objects are kept in memory only. Requests have waited for their own
    /// writes already, so this is for those of the controllers.
    ///
    /// # Errors
    /// If they cannot be written.
    pub async fn flush(&self) -> Result<(), Status> {
        self.inner.flush().await
    }

    /// Returns the fault injection of this server.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// Ends all open watches of a resource at once, as a broken connection would. `group` is "" for core.
    pub fn cut_watches(&self, group: &str, plural: &str) {
        self.inner.state.storage.table(group, plural).cut_watches(None);
    }

    /// Ends all open watches of a resource with an ERROR event, such as [`Status::expired`].
    pub fn fail_watches(&self, group: &str, plural: &str, error: Status) {
        self.inner.state.storage.table(group, plural).cut_watches(Some(error));
    }

    /// Discards the history of a resource.
    ///
    /// Watches that start at an earlier revision then get an ERROR event with code 410, lists of an exact earlier
    /// revision are answered with 410, and `continue` tokens expire.
    pub fn compact(&self, group: &str, plural: &str) {
        self.inner.state.storage.table(group, plural).compact();
    }

    /// Returns the counts of requests by verb and resource.
    #[must_use]
    pub fn requests(&self) -> &RequestLog {
        &self.inner.log
    }

    /// Takes the writes since the last call, in order. There are none unless the server was built with
    /// [`ApiServerBuilder::record_commits`]. The restore of a snapshot is not among them.
    #[must_use]
    pub fn take_commits(&self) -> Vec<Commit> {
        let entries = self.inner.journal.as_ref().map(|journal| journal.take()).unwrap_or_default();
        if entries.is_empty() {
            return Vec::new();
        }
        let registry = self.inner.state.registry();
        entries.iter().map(|entry| commits::commit(&registry, entry)).collect()
    }

    /// Returns the server's objects, for [`ApiServerBuilder::initial_objects`]. Call it before the first request: what follows from objects,
    /// such as the resources that CRDs define, is not among them. `None` if objects change meanwhile.
    #[must_use]
    pub fn initial_objects(&self) -> Option<InitialObjects> {
        InitialObjects::of(&self.inner.state.storage)
    }

    /// Returns how often the server has drawn a UID, the ending of a name or another random value. 0 unless the server was built with
    /// [`ApiServerBuilder::seed`].
    #[must_use]
    pub fn random_draws(&self) -> u64 {
        self.inner.state.identifiers.draws()
    }

    /// Returns a receiver that is notified of every write, with its resourceVersion.
    #[must_use]
    pub fn subscribe(&self) -> tokio::sync::watch::Receiver<u64> {
        self.inner.state.storage.subscribe()
    }

    /// Returns the resourceVersion of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.state.storage.revision()
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
