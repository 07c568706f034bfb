//! Opens a connection to a granted target: resolves the name, leaves out protected addresses, connects,
//! starts TLS.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::HttpError;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::grants::Host;
use super::{AddressScope, Target, Tls};

/// How many names one version of a plugin may resolve at the same time. Each lookup takes a thread and cannot
/// be cancelled.
const MAX_LOOKUPS: usize = 4;

/// Connects for one version of a plugin.
pub(crate) struct Connector {
    tls: Tls,
    lookups: Arc<Semaphore>,
}

/// A connection, with or without TLS.
pub(super) type Stream = Box<dyn ReadWrite>;

pub(super) trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

impl Connector {
    pub(crate) fn new(tls: Tls) -> Self {
        Self { tls, lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }

    /// Connects to the first address that answers. `patience` is the time for all addresses together.
    pub(super) async fn connect(
        &self,
        target: &Target,
        address_scope: AddressScope,
        patience: Duration,
    ) -> Result<Stream, HttpError> {
        let addresses: Vec<SocketAddr> = match &target.host {
            Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
            Host::Name(name) => self.look_up(name, target.port).await?,
        };
        let found = addresses.len();
        let allowed: Vec<_> =
            addresses.into_iter().filter(|address| address_scope.allows(address.ip())).collect();
        if allowed.is_empty() && found > 0 {
            return Err(HttpError::ForbiddenAddress(format!(
                "the HTTP request to {target} is denied: it would go to this machine, its link or a cloud's metadata; \
                 grant the address itself, or localhost, if that is meant"
            )));
        }
        let stream = connect_to_one(target, &allowed, patience).await?;
        if !target.tls {
            return Ok(Box::new(stream));
        }
        let connector = TlsConnector::from(self.tls.config().await?);
        let stream = connector.connect(server_name(target)?, stream).await;
        let stream = stream.map_err(|error| tls_error(target, &error))?;
        Ok(Box::new(stream))
    }

    async fn look_up(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, HttpError> {
        let not_found = |problem: &dyn std::fmt::Display| {
            HttpError::NotFound(format!("no address is found for {name}: {problem}"))
        };
        let permit = Arc::clone(&self.lookups).acquire_owned().await;
        let host_and_port = (name.to_owned(), port);
        let lookup = tokio::task::spawn_blocking(move || {
            // Held until the lookup ends, even if nobody waits for it any more.
            let _permit = permit;
            host_and_port.to_socket_addrs().map(Iterator::collect)
        });
        lookup.await.map_err(|error| not_found(&error))?.map_err(|error| not_found(&error))
    }
}

async fn connect_to_one(
    target: &Target,
    addresses: &[SocketAddr],
    patience: Duration,
) -> Result<TcpStream, HttpError> {
    let each = patience / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match timeout(each, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // A failure is harmless: Nagle's algorithm only delays some responses.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(HttpError::Unreachable(format!("no connection to {target}: {last}")))
}

fn server_name(target: &Target) -> Result<ServerName<'static>, HttpError> {
    match &target.host {
        Host::Address(address) => Ok(ServerName::from(*address)),
        Host::Name(name) => ServerName::try_from(name.clone())
            .map_err(|_| HttpError::Url("the host is not a valid server name for TLS")),
    }
}

fn tls_error(target: &Target, error: &io::Error) -> HttpError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    HttpError::Tls {
        certificate: matches!(inner, Some(rustls::Error::InvalidCertificate(_))),
        message: format!("no TLS connection to {target}: {error}"),
    }
}
