//! What a cluster's controllers do, simulated as far as development and tests need it.

mod bootstrap;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub(crate) use bootstrap::bootstrap;

use crate::server::State;

/// Runs all controllers until `shutdown`.
pub(crate) async fn run(_state: Arc<State>, shutdown: CancellationToken) {
    shutdown.cancelled().await;
}
