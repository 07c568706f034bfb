//! The server itself: options, the tower service, the listener, and what tests can see and break.

mod body;
mod builder;
mod debug;
mod faults;
mod handle;
mod kubeconfig;
mod request_log;
mod service;
mod state;
mod transport;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use body::ResponseBody;
pub use builder::ApiServerBuilder;
pub use faults::{Faults, Matcher};
pub use kubeconfig::KubeconfigError;
pub use request_log::{RequestCount, RequestLog};
pub use service::ApiService;
pub(crate) use state::State;

use crate::access::User;
use crate::controllers;
use crate::listen::{self, CertificateError, ServeError};
use crate::status::Status;

/// A Kubernetes API server in memory. Cheap to clone; all clones are one server. It ends when the last clone, service
/// and watch of it are dropped.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<State>,
}

impl ApiServer {
    /// Starts to describe a server.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// The server as a tower service, for `kube::Client::new(server.service(), "default")`: no socket is involved.
    /// Requests are the administrator's unless they have credentials or impersonate somebody.
    #[must_use]
    pub fn service(&self) -> ApiService {
        let admin = Arc::clone(self.state.access.admin());
        ApiService::in_process(Arc::clone(&self.state), admin)
    }

    /// [`ApiServer::service`] for requests of `user`, such as [`User::service_account`].
    #[must_use]
    pub fn service_as(&self, user: User) -> ApiService {
        ApiService::in_process(Arc::clone(&self.state), Arc::new(user))
    }

    /// A kubeconfig for the server at `address`, with the certificate to trust and the administrator's credentials where they are needed.
    /// It is JSON, which every reader of YAML takes.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub fn kubeconfig(&self, address: SocketAddr) -> Result<String, CertificateError> {
        kubeconfig::text(&self.state.transport, address, self.state.access.admin_token())
    }

    /// The URL of a listener at `address`.
    #[must_use]
    pub fn url(&self, address: SocketAddr) -> String {
        self.state.transport.url(address)
    }

    /// Writes [`ApiServer::kubeconfig`] to `path`, creating its directory. A reader sees the old file or the whole new
    /// one. Only its owner may read it.
    ///
    /// # Errors
    /// When the directory or the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path, address: SocketAddr) -> Result<(), KubeconfigError> {
        kubeconfig::write(path, || self.kubeconfig(address))
    }

    /// Serves HTTP/1.1 and HTTP/2, with TLS unless the builder says otherwise, until `shutdown` is cancelled; then running watches end, other requests
    /// are answered, and the function returns.
    ///
    /// # Errors
    /// When the listener cannot be served.
    ///
    /// # Cancel safety
    /// Dropping the future closes the listener and leaves connections to end by themselves.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
        let (listening, guard) = self.state.transport.listening(listener)?;
        let service = ApiService::over_http(Arc::clone(&self.state), guard, shutdown.clone());
        listen::serve(listening, service, shutdown).await;
        Ok(())
    }

    /// Starts the simulated controllers: garbage collection, the end of namespaces and what a new namespace gets, the
    /// status of workloads, the end of pods. They stop when `shutdown` is cancelled; the handle then completes.
    ///
    /// Without them the server is what a Kubernetes API server is without its controller manager: owner references
    /// are not followed, and a namespace that is being deleted stays.
    pub fn run_controllers(&self, shutdown: CancellationToken) -> JoinHandle<()> {
        tokio::spawn(controllers::run(Arc::clone(&self.state), shutdown))
    }

    /// What may be broken on purpose.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.state.faults
    }

    /// Ends all present watches of a resource at once, as a broken connection would. `group` is "" for core.
    pub fn cut_watches(&self, group: &str, plural: &str) {
        self.state.storage.table(group, plural).cut_watches(None);
    }

    /// Ends all present watches of a resource with an ERROR event, such as [`Status::expired`].
    pub fn fail_watches(&self, group: &str, plural: &str, error: Status) {
        self.state.storage.table(group, plural).cut_watches(Some(error));
    }

    /// Forgets the history of a resource: watches from before now get an ERROR event, exact lists an answer, with code 410, and
    /// `continue` tokens expire.
    pub fn compact(&self, group: &str, plural: &str) {
        self.state.storage.table(group, plural).compact();
    }

    /// How often what was asked for.
    #[must_use]
    pub fn requests(&self) -> &RequestLog {
        &self.state.log
    }

    /// The resourceVersion of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state.storage.revision()
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
