//! The accept loop: connections with bounds, TLS where it is wanted, and an end.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::CertificateError;

/// How long connections may take to end after a shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait after a failed accept (too many open files, for example) before the next.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long a client may take to send the head of a request, the first one with the handshake of TLS, and be idle between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a request's head, and of what is buffered for a connection.
const HEAD_SIZE: usize = 64 << 10;
const HEAD_SIZE_HTTP2: u32 = 64 << 10;
/// Streams of one HTTP/2 connection.
const STREAMS: u32 = 1000;

/// Why a server stopped serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener does not even know its address.
    #[error("the listener is unusable: {0}; bind another address")]
    Listener(#[source] std::io::Error),
    /// The certificate of the listener cannot be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// A socket, and how it is served.
pub struct Listening {
    /// The socket.
    pub listener: TcpListener,
    /// TLS, or none for plain HTTP.
    pub tls: Option<TlsAcceptor>,
    /// How many connections may be open; further ones wait until one ends.
    pub connections: usize,
}

/// Serves HTTP/1.1 and HTTP/2 until `shutdown` is cancelled; then connections get some seconds to end.
///
/// A request's head is bounded in size and time, a connection that asks for nothing is closed, and the number of connections is bounded.
/// Bodies are for `service` to bound.
pub async fn serve<S, B>(listening: Listening, service: S, shutdown: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let Listening { listener, tls, connections } = listening;
    let builder = Arc::new(builder());
    let slots = Arc::new(Semaphore::new(connections));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            next = next => next,
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
        let connection = Connection {
            builder: Arc::clone(&builder),
            service: service.clone(),
            watcher: graceful.watcher(),
            shutdown: shutdown.clone(),
        };
        let tls = tls.clone();
        tokio::spawn(async move {
            let _slot = slot;
            if let Err(error) = connection.run(stream, tls).await {
                tracing::debug!(error, "a connection ended with an error");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in {GRACE:?} and are left behind");
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .keep_alive(true)
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_SIZE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_SIZE_HTTP2);
    builder
}

/// One connection.
struct Connection<S> {
    builder: Arc<Builder<TokioExecutor>>,
    service: S,
    watcher: Watcher,
    shutdown: CancellationToken,
}

impl<S, B> Connection<S>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    async fn run(
        self,
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let deadline = tokio::time::Instant::now() + HEAD_TIMEOUT;
        let Some(tls) = tls else { return self.serve(stream, deadline).await };
        let stream = tokio::select! {
            () = self.shutdown.cancelled() => return Ok(()),
            stream = tokio::time::timeout_at(deadline, tls.accept(stream)) => stream??,
        };
        self.serve(stream, deadline).await
    }

    async fn serve<I>(self, io: I, deadline: tokio::time::Instant) -> Result<(), Box<dyn Error + Send + Sync>>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let asked = Arc::new(AtomicBool::new(false));
        let service = Noting { service: self.service, asked: Arc::clone(&asked) };
        let connection = self
            .builder
            .serve_connection_with_upgrades(TokioIo::new(io), TowerToHyperService::new(service))
            .into_owned();
        let mut connection = std::pin::pin!(self.watcher.watch(connection));
        // hyper's own time for a head begins when it knows the version of HTTP.
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = tokio::time::sleep_until(deadline) => {}
        }
        if !asked.load(Ordering::Relaxed) {
            return Err("nothing was asked for in time".into());
        }
        connection.await
    }
}

/// Notes that a request came.
#[derive(Clone)]
struct Noting<S> {
    service: S,
    asked: Arc<AtomicBool>,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for Noting<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Incoming>) -> S::Future {
        self.asked.store(true, Ordering::Relaxed);
        self.service.call(request)
    }
}
