use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::listen::{Authority, CertificateError, Listening, RequestGuard, ServeError};

/// Open connections of a listener. A client that speaks HTTP/1.1 has one for each watch.
const CONNECTIONS: usize = 4096;

/// How the server is reached over sockets.
pub(crate) struct Transport {
    is_tls: bool,
    /// Names, beside addresses and localhost, that clients call it by.
    hosts: Vec<String>,
    /// Made when it is needed first: many servers never listen.
    authority: Mutex<Option<Arc<Authority>>>,
}

impl Transport {
    pub(super) fn new(is_tls: bool, hosts: Vec<String>) -> Self {
        Self { is_tls, hosts, authority: Mutex::default() }
    }

    /// The socket with what this server puts on it, and the guard of its requests.
    pub(super) fn listening(&self, listener: TcpListener) -> Result<(Listening, RequestGuard), ServeError> {
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        let tls = match self.authority()? {
            Some(authority) => Some(authority.acceptor(address.ip(), &self.hosts)?),
            None => None,
        };
        let guard = RequestGuard::new(self.is_tls, &self.hosts);
        Ok((Listening { listener, tls, connections: CONNECTIONS }, guard))
    }

    /// The URL of a listener at `address`.
    pub(super) fn url(&self, address: SocketAddr) -> String {
        format!("{}://{}", self.scheme(), reachable(address))
    }

    /// The same with a password in it.
    pub(super) fn url_with(&self, user: &str, password: &str, address: SocketAddr) -> String {
        format!("{}://{user}:{password}@{}", self.scheme(), reachable(address))
    }

    fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// The certificate that clients have to trust, in PEM; none without TLS.
    pub(super) fn trusted(&self) -> Result<Option<String>, CertificateError> {
        Ok(self.authority()?.map(|authority| authority.pem().to_owned()))
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

/// Where a client on this machine reaches a listener: one of all addresses is reached on loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
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
