//! The Kubernetes clients of the host.

/// The clients for the API server.
///
/// A connection belongs to the runtime that opened it, so each runtime needs a client of its own. If a watch
/// shared a connection that a request opened, each chunk would first wake a plugin thread, and that thread
/// the informers' thread.
#[derive(Clone)]
pub struct Clients {
    /// For everything except lists and watches.
    pub requests: kube::Client,
    /// For the lists and watches of informers.
    pub watches: kube::Client,
}

/// Uses one client for both: an in-process server has no connections to keep apart.
impl From<kube::Client> for Clients {
    fn from(client: kube::Client) -> Self {
        Self { requests: client.clone(), watches: client }
    }
}
