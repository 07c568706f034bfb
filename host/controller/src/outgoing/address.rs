//! Which addresses a granted host may turn out to have. A name is whoever owns it to point anywhere: to the host's own ports, or to
//! where clouds hand out credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far a grant reaches. A later one reaches what an earlier one does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Addresses of the network, those of clusters and private networks included.
    Network,
    /// The loopback addresses, because the grant says `localhost`.
    Loopback,
    /// The address that the request names, because the grant names it.
    ThisAddress,
}

/// Where clouds answer with credentials, besides the link-local addresses.
const METADATA: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

impl Reach {
    /// Whether a connection to the address may be opened.
    pub(crate) fn allows(self, address: IpAddr) -> bool {
        let address = embedded(address);
        match self {
            Self::ThisAddress => true,
            Self::Loopback => address.is_loopback(),
            Self::Network => !is_protected(address),
        }
    }
}

/// The IPv4 address that an IPv6 one stands for, where it stands for one: by mapping, NAT64, 6to4, or as of old.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let last = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => last(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => last(high, low),
        _ => address,
    }
}

fn is_protected(address: IpAddr) -> bool {
    let own = match address {
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    own || address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || METADATA.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(reach: Reach, address: &str) -> bool {
        reach.allows(address.parse().unwrap_or_else(|error| panic!("{address}: {error}")))
    }

    #[test]
    fn a_name_leads_into_the_network_and_nowhere_else() {
        for address in [
            "93.184.215.14",
            "10.96.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "fd12::1",
            "2606:2800::1",
            "64:ff9b::a60:1",
        ] {
            assert!(allows(Reach::Network, address), "{address}");
        }
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "168.63.129.16",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "::127.0.0.1",
        ] {
            assert!(!allows(Reach::Network, address), "{address}");
            assert!(allows(Reach::ThisAddress, address), "{address}");
        }
    }

    #[test]
    fn localhost_is_the_loopback_and_nothing_beyond() {
        assert!(allows(Reach::Loopback, "127.0.0.1"));
        assert!(allows(Reach::Loopback, "::1"));
        assert!(!allows(Reach::Loopback, "10.0.0.1"));
        assert!(!allows(Reach::Loopback, "169.254.169.254"));
    }
}
