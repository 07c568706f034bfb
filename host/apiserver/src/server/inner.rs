//! The state of a server beyond that of the cluster it simulates.

use std::sync::Arc;

use super::audit::AuditLog;
use super::metrics::Metrics;
use super::snapshots::Snapshots;
use super::transport::Transport;
use super::{Faults, RequestLog};
use crate::openapi::DocumentCache;
use crate::persistence::DataDirectory;
use crate::state::State;
use crate::status::Status;
use crate::storage::Journal;

/// What all clones of an [`super::ApiServer`] and its services share.
pub(super) struct ServerInner {
    pub state: Arc<State>,
    pub transport: Transport,
    pub documents: DocumentCache,
    pub faults: Faults,
    pub log: RequestLog,
    pub metrics: Metrics,
    /// `None` if requests are not recorded.
    pub audit: Option<AuditLog>,
    /// The minor version of Kubernetes 1.x that `/version` reports.
    pub kubernetes_minor: u16,
    /// Where objects are kept on disk; `None` if they are kept in memory only.
    pub data: Option<DataDirectory>,
    /// The writes that were not taken yet; `None` if they are not recorded.
    pub journal: Option<Arc<Journal>>,
    pub snapshots: Snapshots,
    /// Whether `/debug/faults` is served.
    pub faults_over_http: bool,
    /// Whether `/debug/snapshot` is served.
    pub snapshots_over_http: bool,
}

impl ServerInner {
    /// Errors if a write cannot become durable because the data directory has failed.
    pub(super) fn check_data(&self) -> Result<(), Status> {
        let failure = self.data.as_ref().and_then(DataDirectory::failure);
        failure.map_or(Ok(()), |failure| Err(storage_failed(&failure)))
    }

    /// Waits until all writes up to now are on disk. Returns at once if objects are kept in memory only.
    pub(super) async fn flush(&self) -> Result<(), Status> {
        match &self.data {
            Some(data) => data.flush().await.map_err(|failure| storage_failed(&failure)),
            None => Ok(()),
        }
    }
}

fn storage_failed(failure: &str) -> Status {
    Status::internal(format_args!("objects can no longer be stored: {failure}; restart the server"))
}
