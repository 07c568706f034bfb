//! Handles SIGTERM and SIGINT (Ctrl-C).

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::CommandError;

/// How long running work may take to finish after a signal.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_millis(9_500);

/// Returns a token that is cancelled by the first SIGTERM or SIGINT.
pub(crate) fn on_signal() -> Result<CancellationToken, CommandError> {
    let handler_error =
        |error| CommandError::Failure(format!("cannot install handlers for SIGTERM and SIGINT: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(handler_error)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(handler_error)?;
    let token = CancellationToken::new();
    let shutdown = token.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!("received {name}: draining and stopping");
        shutdown.cancel();
    });
    Ok(token)
}
