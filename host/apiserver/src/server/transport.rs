//! The server's listeners: their URLs, certificates and request guards.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_listen::{Authority, BoundListener, CertificateError, RequestGuard, ServeError};
use tokio::net::TcpListener;

/// The most open connections of a listener. An HTTP/1.1 client needs one for each watch.
const MAX_CONNECTIONS: usize = 4096;

/// How clients reach the server over sockets.
pub(super) struct Transport {
    is_tls: bool,
    /// DNS names under which clients reach the server, in addition to IP addresses and `localhost`.
    allowed_hosts: Vec<String>,
    /// Generated when first needed, because many servers never listen.
    authority: Mutex<Option<Arc<Authority>>>,
}

impl Transport {
    pub(super) fn new(is_tls: bool, allowed_hosts: Vec<String>) -> Self {
        Self { is_tls, allowed_hosts, authority: Mutex::default() }
    }

    /// Returns the listener with this server's TLS configuration and connection limit, and the guard for its requests.
    pub(super) fn bind(&self, listener: TcpListener) -> Result<(BoundListener, RequestGuard), ServeError> {
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        let tls = match self.authority()? {
            Some(authority) => Some(authority.acceptor(address.ip(), &self.allowed_hosts)?),
            None => None,
        };
        let guard = RequestGuard::new(self.is_tls, &self.allowed_hosts);
        let bound =
            BoundListener { listener, tls, max_connections: MAX_CONNECTIONS, exposes_addresses: false };
        Ok((bound, guard))
    }

    /// Returns the URL of a listener at `address`.
    pub(super) fn url(&self, address: SocketAddr) -> String {
        format!("{}://{}", self.scheme(), client_address(address))
    }

    /// Returns the URL of a listener at `address` with a user name and a password in it.
    pub(super) fn url_with_password(&self, user: &str, password: &str, address: SocketAddr) -> String {
        format!("{}://{user}:{password}@{}", self.scheme(), client_address(address))
    }

    fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// Returns the CA certificate that clients need to trust, in PEM; `None` without TLS.
    pub(super) fn ca_certificate(&self) -> Result<Option<String>, CertificateError> {
        Ok(self.authority()?.map(|authority| authority.pem().to_owned()))
    }

    /// Returns the CA certificate in PEM if one was generated already.
    pub(super) fn generated_ca_certificate(&self) -> Option<String> {
        self.authority.lock().as_ref().map(|authority| authority.pem().to_owned())
    }

    fn authority(&self) -> Result<Option<Arc<Authority>>, CertificateError> {
        if !self.is_tls {
            return Ok(None);
        }
        let mut authority = self.authority.lock();
        if authority.is_none() {
            *authority = Some(Arc::new(Authority::new()?));
        }
        Ok(authority.clone())
    }
}

/// Returns the address at which a client on this machine reaches a listener; loopback for one on all addresses.
fn client_address(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_on_loopback() {
        let url = |address: &str| Transport::new(true, Vec::new()).url(address.parse().expect("an address"));
        assert_eq!(url("0.0.0.0:6443"), "https://127.0.0.1:6443");
        assert_eq!(url("[::]:6443"), "https://[::1]:6443");
        assert_eq!(url("10.0.0.7:6443"), "https://10.0.0.7:6443");
    }
}
