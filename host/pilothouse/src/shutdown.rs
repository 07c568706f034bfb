//! SIGTERM and Ctrl-C.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::Failed;

/// How long the whole process may take to end after a signal.
pub(crate) const GRACE: Duration = Duration::from_millis(9_500);

/// A token that is cancelled by the first SIGTERM or SIGINT.
pub(crate) fn on_signal() -> Result<CancellationToken, Failed> {
    let failed = |error| Failed::Work(format!("signals cannot be handled: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let token = CancellationToken::new();
    let shutdown = token.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!("{name}: draining and stopping");
        shutdown.cancel();
    });
    Ok(token)
}
