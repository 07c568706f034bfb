//! The state of a server beyond that of the cluster it simulates.

use std::sync::Arc;

use super::metrics::Metrics;
use super::transport::Transport;
use super::{Faults, RequestLog};
use crate::openapi::DocumentCache;
use crate::state::State;

/// What all clones of an [`super::ApiServer`] and its services share.
pub(super) struct ServerInner {
    pub state: Arc<State>,
    pub transport: Transport,
    pub documents: DocumentCache,
    pub faults: Faults,
    pub log: RequestLog,
    pub metrics: Metrics,
    /// The minor version of Kubernetes 1.x that `/version` reports.
    pub kubernetes_minor: u16,
    /// Whether `/debug/faults` is served.
    pub faults_over_http: bool,
}
