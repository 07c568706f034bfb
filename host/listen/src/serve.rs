//! The accept loop: bounded connections, optional TLS, graceful shutdown.

use std::error::Error;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
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

use crate::{CertificateError, ClientCertificate};

/// How long open connections may take to complete after a shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// The delay after a failed accept, for example because of too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long a client may take to send the head of a request, including the TLS handshake for the first one, and how long
/// a connection may be idle between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size in bytes of a request's head, and of the read buffer of an HTTP/1.1 connection.
const MAX_HEAD_SIZE: usize = 64 << 10;
/// The maximum size in bytes of the header list of an HTTP/2 request.
const MAX_HEAD_SIZE_HTTP2: u32 = 64 << 10;
/// The maximum number of concurrent streams of an HTTP/2 connection.
const MAX_STREAMS: u32 = 1000;

/// A listener could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The local address of the listener could not be determined.
    #[error("cannot determine the address of the listener: {0}; bind another address")]
    Listener(#[source] std::io::Error),
    /// The certificate of the listener could not be generated.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// A bound socket, and how it is served.
pub struct BoundListener {
    /// The socket.
    pub listener: TcpListener,
    /// TLS, or `None` for plain HTTP.
    pub tls: Option<TlsAcceptor>,
    /// The maximum number of open connections; further ones wait until one ends.
    pub max_connections: usize,
    /// Whether each request carries the [`ConnectionAddresses`] of its connection as an extension.
    pub exposes_addresses: bool,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionAddresses {
    /// The address of this server.
    pub server: SocketAddr,
    /// The address of the client.
    pub client: SocketAddr,
    /// The inode of this server's socket. It tells the connection from a later one with the same addresses.
    pub inode: u64,
}

impl ConnectionAddresses {
    /// Returns the addresses of a connection that this server has accepted.
    ///
    /// # Errors
    /// If the client has closed the connection, or the process has no file descriptor left.
    pub fn of(stream: &TcpStream) -> io::Result<Self> {
        // The duplicate refers to the same socket.
        let socket = File::from(stream.as_fd().try_clone_to_owned()?);
        Ok(Self {
            server: stream.local_addr()?,
            client: stream.peer_addr()?,
            inode: socket.metadata()?.ino(),
        })
    }
}

/// Serves HTTP/1.1 and HTTP/2 until `shutdown` is cancelled; then open connections get 5 seconds to complete.
///
/// The number of connections, and the size and duration of a request's head, are bounded, and idle connections are closed.
/// `service` must bound request bodies.
pub async fn serve<S, B>(listener: BoundListener, service: S, shutdown: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let BoundListener { listener, tls, max_connections, exposes_addresses } = listener;
    let builder = Arc::new(builder());
    let slots = Arc::new(Semaphore::new(max_connections));
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
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        // Watch events are small and must be sent at once.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let addresses = exposes_addresses.then(|| ConnectionAddresses::of(&stream).ok()).flatten();
        let connection = Connection {
            builder: Arc::clone(&builder),
            service: service.clone(),
            addresses,
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
    if tokio::time::timeout(SHUTDOWN_GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not complete within {SHUTDOWN_GRACE:?}; they are left open");
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .keep_alive(true)
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_SIZE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD_SIZE_HTTP2);
    builder
}

/// One connection.
struct Connection<S> {
    builder: Arc<Builder<TokioExecutor>>,
    service: S,
    addresses: Option<ConnectionAddresses>,
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
        let Some(tls) = tls else { return self.serve(stream, None, deadline).await };
        let stream = tokio::select! {
            () = self.shutdown.cancelled() => return Ok(()),
            stream = tokio::time::timeout_at(deadline, tls.accept(stream)) => stream??,
        };
        let certificate = ClientCertificate::of(&stream);
        self.serve(stream, certificate, deadline).await
    }

    async fn serve<I>(
        self,
        io: I,
        certificate: Option<ClientCertificate>,
        deadline: tokio::time::Instant,
    ) -> Result<(), Box<dyn Error + Send + Sync>>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let request_received = Arc::new(AtomicBool::new(false));
        let service = RequestTracker {
            service: self.service,
            request_received: Arc::clone(&request_received),
            addresses: self.addresses,
            certificate,
        };
        let connection = self
            .builder
            .serve_connection_with_upgrades(TokioIo::new(io), TowerToHyperService::new(service))
            .into_owned();
        let mut connection = std::pin::pin!(self.watcher.watch(connection));
        // hyper's own timeout for a head starts only once it knows the HTTP version.
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = tokio::time::sleep_until(deadline) => {}
        }
        if !request_received.load(Ordering::Relaxed) {
            return Err("no request arrived in time".into());
        }
        connection.await
    }
}

/// Records that a request arrived, and adds the addresses of its connection and the client's certificate to it.
#[derive(Clone)]
struct RequestTracker<S> {
    service: S,
    request_received: Arc<AtomicBool>,
    addresses: Option<ConnectionAddresses>,
    certificate: Option<ClientCertificate>,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for RequestTracker<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> S::Future {
        self.request_received.store(true, Ordering::Relaxed);
        if let Some(addresses) = self.addresses {
            request.extensions_mut().insert(addresses);
        }
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        self.service.call(request)
    }
}
