//! The accept loop: bounded connections, optional TLS, graceful shutdown.

use std::error::Error;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::activity::{Action, Activity};
use crate::slots::{Slot, Slots};
use crate::tracked::TrackedService;
use crate::{CertificateError, ClientCertificate, ConnectionLimits, ConnectionVerdict};

/// How long open connections may take to complete after a shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// The delay after a failed accept, for example because of too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long a client may take to send the head of a request, including the TLS handshake for the first one, and how long
/// an HTTP/1.1 connection may be idle between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size in bytes of a request's head, and of the read buffer of an HTTP/1.1 connection.
const MAX_HEAD_SIZE: usize = 64 << 10;
/// The maximum size in bytes of the header list of an HTTP/2 request.
const MAX_HEAD_SIZE_HTTP2: u32 = 64 << 10;
/// How long an HTTP/2 connection may be silent before the client is asked whether it still exists.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long the answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection may be silent before the system asks whether its client still exists, and how often it asks then.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How long a reserved connection may be open.
const RESERVED_LIFETIME: Duration = Duration::from_secs(5);

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
    /// What its clients may use.
    pub limits: ConnectionLimits,
    /// Whether each request carries the [`ConnectionAddresses`] of its connection as an extension, and a [`ConnectionVerdict`].
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
/// The number of connections and of concurrent requests on each, the size and duration of a request's head, and, if
/// [`ConnectionLimits::response`] is set, the duration of a response are bounded, and idle connections are closed. `service` must bound
/// request bodies.
pub async fn serve<S, B>(listener: BoundListener, service: S, shutdown: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: http_body::Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let BoundListener { listener, tls, limits, exposes_addresses } = listener;
    let builders = Arc::new(Builders::new(limits));
    let slots = Slots::new(&limits);
    let connections = TaskTracker::new();
    loop {
        let next = async {
            let vacancy = slots.vacancy().await;
            (vacancy, listener.accept().await)
        };
        let (vacancy, accepted) = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            next = next => next,
        };
        let (stream, client) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let Some(slot) = vacancy.and_then(|vacancy| slots.occupy(vacancy, client.ip())) else {
            tracing::debug!(%client, "closed a connection: its client has too many");
            continue;
        };
        if let Err(error) = set_options(&stream) {
            tracing::debug!(%error, "cannot set the options of a connection's socket");
        }
        let addresses = exposes_addresses.then(|| ConnectionAddresses::of(&stream).ok()).flatten();
        let connection = Connection {
            builders: Arc::clone(&builders),
            service: service.clone(),
            addresses,
            slot,
            shutdown: shutdown.clone(),
        };
        let tls = tls.clone();
        connections.spawn(async move {
            if let Err(error) = connection.run(stream, tls).await {
                tracing::debug!(error, "a connection ended with an error");
            }
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(SHUTDOWN_GRACE, connections.wait()).await.is_err() {
        tracing::warn!("some connections did not complete within {SHUTDOWN_GRACE:?}; they are left open");
    }
}

/// Sets the options of a connection's socket.
fn set_options(stream: &TcpStream) -> io::Result<()> {
    // Watch events are small and must be sent at once.
    stream.set_nodelay(true)?;
    // A stream that has nothing to send would never learn that its client has vanished.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// How connections are served.
struct Builders {
    limits: ConnectionLimits,
    ordinary: Builder<TokioExecutor>,
    /// For reserved connections: one request at a time, and none after the first with HTTP/1.1.
    reserved: Builder<TokioExecutor>,
}

impl Builders {
    fn new(limits: ConnectionLimits) -> Self {
        Self { limits, ordinary: builder(&limits, false), reserved: builder(&limits, true) }
    }
}

fn builder(limits: &ConnectionLimits, is_reserved: bool) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .keep_alive(!is_reserved)
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_SIZE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(if is_reserved { 1 } else { limits.streams })
        .initial_connection_window_size(limits.request_window)
        .initial_stream_window_size(limits.request_window)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_header_list_size(MAX_HEAD_SIZE_HTTP2);
    builder
}

/// One connection.
struct Connection<S> {
    builders: Arc<Builders>,
    service: S,
    addresses: Option<ConnectionAddresses>,
    slot: Slot,
    shutdown: CancellationToken,
}

impl<S, B> Connection<S>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: http_body::Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    async fn run(
        self,
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let deadline = Instant::now() + HEAD_TIMEOUT;
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
        deadline: Instant,
    ) -> Result<(), Box<dyn Error + Send + Sync>>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let ConnectionLimits { idle_timeout, response, .. } = self.builders.limits;
        let activity = Activity::new(idle_timeout, response, deadline);
        let service = TrackedService {
            service: self.service,
            activity: Arc::clone(&activity),
            addresses: self.addresses,
            verdict: ConnectionVerdict::default(),
            certificate,
            is_reserved: self.slot.is_reserved(),
        };
        let end = self.slot.is_reserved().then(|| Instant::now() + RESERVED_LIFETIME);
        let builder = if self.slot.is_reserved() { &self.builders.reserved } else { &self.builders.ordinary };
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service).into_owned();
        let mut connection = std::pin::pin!(connection);
        let mut is_shutting_down = false;
        // hyper's own timeout for a head starts only once it knows the HTTP version, and its HTTP/2 has no timeout for idle connections.
        loop {
            let now = Instant::now();
            let next = match activity.next_action(now) {
                Action::Keep { until } => end.map_or(until, |end| until.min(end)),
                Action::Close => {
                    connection.as_mut().graceful_shutdown();
                    continue;
                }
                Action::Abort(reason) => return Err(reason.into()),
            };
            if end.is_some_and(|end| end <= now) {
                return Err("a reserved connection was open for too long".into());
            }
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended,
                () = self.shutdown.cancelled(), if !is_shutting_down => {
                    is_shutting_down = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_asks_whether_a_silent_client_still_exists() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stream, _) = accepted.expect("a connection");
        set_options(&stream).expect("set");
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().expect("an option") && socket.tcp_nodelay().expect("an option"));
        assert_eq!(socket.tcp_keepalive_time().expect("an option"), KEEPALIVE_TIME);
    }
}
