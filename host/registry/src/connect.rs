//! Opens connections: resolves the name, leaves out the addresses that are not allowed, connects, starts TLS.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::is_public;
use crate::error::{Problem, RegistryError};
use crate::origin::{AddressScope, Origin, trust_remedy};
use crate::tls::Tls;

/// A connection, with or without TLS.
pub(crate) type Stream = Box<dyn ReadWrite>;

pub(crate) trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

/// Connects to the first address that answers. The caller limits the time.
pub(crate) async fn connect(
    origin: &Origin,
    scope: AddressScope,
    tls: &Tls,
) -> Result<Stream, RegistryError> {
    let found = addresses(origin).await?;
    let allowed: Vec<_> =
        found.iter().filter(|address| scope == AddressScope::Any || is_public(address.ip())).collect();
    if allowed.is_empty() && !found.is_empty() {
        return Err(RegistryError::new(
            Problem::ForbiddenHost,
            format!(
                "{origin} has no public address, and only the registry named it; {}",
                trust_remedy(&origin.host)
            ),
        ));
    }
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in allowed {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A failure is harmless: Nagle's algorithm only delays some requests.
                let _ = stream.set_nodelay(true);
                return start_tls(origin, stream, tls).await;
            }
            Err(error) => last = error,
        }
    }
    Err(unreachable(origin, &last))
}

async fn start_tls(origin: &Origin, stream: TcpStream, tls: &Tls) -> Result<Stream, RegistryError> {
    if !origin.tls {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(origin.host.trim_matches(['[', ']']).to_owned()).map_err(|error| {
        RegistryError::new(
            Problem::Protocol,
            format!(
                "no TLS connection to {origin}: its host is invalid: {error}; correct the registry's name"
            ),
        )
    })?;
    let started = TlsConnector::from(std::sync::Arc::clone(&tls.0)).connect(name, stream).await;
    Ok(Box::new(started.map_err(|error| tls_error(origin, &error))?))
}

fn tls_error(origin: &Origin, error: &io::Error) -> RegistryError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let remedy = match inner {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "name the registry's certificate authority if it is a private one (--certificate-authority, or registries.certificateAuthority of the host's configuration), and install the system's root certificates (package ca-certificates)"
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "if it has no TLS, pass --plain-http, or list it in registries.plainHttp of the host's configuration"
        }
        _ => "check that the registry is running",
    };
    let problem = if matches!(inner, Some(rustls::Error::InvalidCertificate(_))) {
        Problem::Denied
    } else {
        Problem::Unreachable
    };
    RegistryError::new(problem, format!("no TLS connection to {origin}: {error}; {remedy}"))
}

pub(crate) fn unreachable(origin: &Origin, error: &dyn std::fmt::Display) -> RegistryError {
    RegistryError::new(
        Problem::Unreachable,
        format!(
            "no connection to {origin}: {error}; check that the registry is running and that this machine may reach it"
        ),
    )
}

async fn addresses(origin: &Origin) -> Result<Vec<SocketAddr>, RegistryError> {
    let bare = origin.host.trim_matches(['[', ']']);
    let literal = if bare.len() < origin.host.len() {
        bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    } else {
        bare.parse::<IpAddr>().ok()
    };
    if let Some(address) = literal {
        return Ok(vec![SocketAddr::new(address, origin.port)]);
    }
    let host_and_port = (origin.host.clone(), origin.port);
    let lookup = tokio::task::spawn_blocking(move || host_and_port.to_socket_addrs().map(Iterator::collect));
    let found = lookup.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    found.map_err(|error| unreachable(origin, &format_args!("no address is found: {error}")))
}
