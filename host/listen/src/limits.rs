//! What clients of a listener may use: connections, streams and time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The limits of a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The maximum number of open connections. Further ones wait until one ends, unless there are [reserved](Self::reserved) ones.
    pub connections: usize,
    /// The maximum number of open connections of one [`ClientNetwork`]. Further ones are closed at once.
    pub connections_per_client: usize,
    /// The number of connections that are served while all others are in use, so that probes succeed. Each ends after 5 seconds, and serves
    /// one request at a time, which carries [`ReservedConnection`] as an extension. A client with four connections gets none of them.
    pub reserved: usize,
    /// The maximum number of concurrent streams of an HTTP/2 connection.
    pub streams: u32,
    /// How many bytes of request bodies, which nobody has read yet, an HTTP/2 connection holds.
    pub request_window: u32,
    /// How long a connection may be idle after a request.
    pub idle_timeout: Duration,
    /// Within what time responses must be taken by clients; `None` if clients may take any time.
    pub response: Option<ResponseTimeouts>,
}

/// How long a client may take for a response. A connection with a response that takes longer is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseTimeouts {
    /// The maximum time until the client takes the next part of the body.
    pub part: Duration,
    /// The maximum time for the whole body, unless the response has [`EndlessResponse`] as an extension.
    pub whole: Duration,
}

/// An extension of responses that have no end, such as the lines of a log that is followed.
#[derive(Clone, Copy, Debug)]
pub struct EndlessResponse;

/// An extension of requests on a connection that is served only because [`ConnectionLimits::reserved`] allows it. Only requests that must
/// be answered even if there are too many clients, such as probes, should be answered.
#[derive(Clone, Copy, Debug)]
pub struct ReservedConnection;

/// The addresses that count as one client: an IPv4 address, the first 64 bits of an IPv6 address, or all loopback addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// Returns the client that an address belongs to.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // A process can connect from any of the 16 million loopback addresses.
            address if address.is_loopback() => Self(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(address) => {
                Self(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into())
            }
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_one_machine_can_choose_freely_are_one_client() {
        let of = |text: &str| ClientNetwork::of(text.parse().expect("an address"));
        for (one, other) in [
            ("127.0.0.1", "127.255.1.2"),
            ("127.0.0.1", "::1"),
            ("127.0.0.1", "::ffff:127.0.0.9"),
            ("10.1.2.3", "::ffff:10.1.2.3"),
            ("2001:db8::1", "2001:db8::ffff:1:2:3"),
        ] {
            assert_eq!(of(one), of(other), "{one} and {other}");
        }
        for (one, other) in
            [("10.1.2.3", "10.1.2.4"), ("2001:db8::1", "2001:db8:0:1::1"), ("10.1.2.3", "127.0.0.1")]
        {
            assert_ne!(of(one), of(other), "{one} and {other}");
        }
    }
}
