/// The ways to the API server.
///
/// A connection belongs to the runtime that opened it, and only clients of their own have connections of their own. A watch on one that a request had
/// opened would come by way of the plugins' threads, of which each chunk wakes one, and that the informers' thread in turn.
#[derive(Clone)]
pub struct Clients {
    /// For everything else.
    pub requests: kube::Client,
    /// For lists and watches of informers.
    pub watches: kube::Client,
}

/// One for both: in process there is no connection, and with one runtime nothing to keep apart.
impl From<kube::Client> for Clients {
    fn from(client: kube::Client) -> Self {
        Self { requests: client.clone(), watches: client }
    }
}
