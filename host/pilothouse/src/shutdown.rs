//! Handles SIGTERM and SIGINT (Ctrl-C).

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::CommandError;

/// How long running work may take to finish after a signal.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_millis(9_500);

/// Signals within this time count as one: `timeout` of coreutils signals the process and its group, and a terminal and a parent may do so, too.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// Returns a token that is cancelled by the first SIGTERM or SIGINT. A later one ends the process at once with exit code 1, as in
/// controller-runtime (`sigs.k8s.io/controller-runtime/pkg/manager/signals`).
pub(crate) fn on_signal() -> Result<CancellationToken, CommandError> {
    let handler_error =
        |error| CommandError::Failure(format!("cannot install handlers for SIGTERM and SIGINT: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(handler_error)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(handler_error)?;
    let token = CancellationToken::new();
    let shutdown = token.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let name = next().await;
        tracing::info!("received {name}: draining and stopping; another signal stops at once");
        shutdown.cancel();
        let first = Instant::now();
        loop {
            let name = next().await;
            if first.elapsed() >= SAME_SIGNAL {
                tracing::warn!("received {name}: stopping at once");
                std::process::exit(1);
            }
        }
    });
    Ok(token)
}
