use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{ApiService, State};

/// How long connections may take to end after a shutdown.
const GRACE: Duration = Duration::from_secs(5);

/// How long to wait after a failed accept (too many open files, for example) before the next.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Why a server stopped serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener does not even know its address.
    #[error("the listener is unusable: {0}; bind another address")]
    Listener(#[source] std::io::Error),
}

pub(super) async fn serve(
    state: Arc<State>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    listener.local_addr().map_err(ServeError::Listener)?;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).keep_alive(true);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        // Watch events are small and must leave at once.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let service = TowerToHyperService::new(ApiService::new(
            Arc::clone(&state),
            Arc::clone(state.access.stranger()),
            shutdown.clone(),
        ));
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended with an error");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in {GRACE:?} and are left behind");
    }
    Ok(())
}
