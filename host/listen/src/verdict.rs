//! What is found out about the client of a connection at most once.

use std::sync::Arc;

use tokio::sync::OnceCell;

/// A decision about the client of a connection, which all requests on the connection share. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ConnectionVerdict(Arc<OnceCell<bool>>);

impl ConnectionVerdict {
    /// Returns the decision. The first request decides, and others wait for it. `None` is not a decision: a later request decides.
    pub async fn get_or_decide(&self, decide: impl Future<Output = Option<bool>>) -> Option<bool> {
        let decide = async { decide.await.ok_or(()) };
        self.0.get_or_try_init(|| decide).await.ok().copied()
    }
}
