//! Which addresses a granted host may resolve to. The owner of a DNS name can point it anywhere: to ports of
//! this machine, or to a cloud's metadata service with its credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses a grant permits. Later variants permit addresses that earlier ones do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddressScope {
    /// Network addresses, including those of clusters and private networks.
    Network,
    /// Loopback addresses, because the grant says `localhost`.
    Loopback,
    /// The address in the request, because the grant names it.
    ThisAddress,
}

/// The metadata services of clouds outside of the link-local range.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
];

/// IPv6 networks that no plugin needs to reach, each with the length of its prefix in bits.
const PROTECTED: [(Ipv6Addr, u32); 6] = [
    // Amazon's metadata, time and DNS servers.
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32),
    // Google's metadata.
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0), 32),
    // Local-use NAT64 (RFC 8215): where the IPv4 address is embedded depends on the network.
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
    // Teredo, which embeds an IPv4 address.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32),
    // The deprecated site-local range.
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10),
    // The discard-only range (RFC 6666).
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64),
];

impl AddressScope {
    /// Whether a connection to the address may be opened.
    pub(crate) fn allows(self, address: IpAddr) -> bool {
        let address = embedded_ipv4(address);
        match self {
            Self::ThisAddress => true,
            Self::Loopback => address.is_loopback(),
            Self::Network => !is_protected(address),
        }
    }
}

/// Returns the IPv4 address that an IPv6 address embeds, if any: IPv4-mapped, IPv4-translated, NAT64, 6to4,
/// ISATAP, or the deprecated IPv4-compatible form.
fn embedded_ipv4(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let last = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [_, _, _, _, 0 | 0x200, 0x5efe, high, low]
        | [0x2002, high, low, ..] => last(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => last(high, low),
        _ => address,
    }
}

fn is_protected(address: IpAddr) -> bool {
    let own = match address {
        // 0.0.0.0/8, link-local, and the reserved range from 240.0.0.0 on.
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.octets()[0] >= 240 || v4.is_link_local(),
        IpAddr::V6(v6) => {
            let is_in =
                |(network, bits): &(Ipv6Addr, u32)| (v6.to_bits() ^ network.to_bits()) >> (128 - bits) == 0;
            v6.is_unicast_link_local() || PROTECTED.iter().any(is_in)
        }
    };
    own || address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || METADATA.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(address_scope: AddressScope, address: &str) -> bool {
        address_scope.allows(address.parse().unwrap_or_else(|error| panic!("{address}: {error}")))
    }

    #[test]
    fn a_dns_name_reaches_only_network_addresses() {
        for address in [
            "93.184.215.14",
            "10.96.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "fd12::1",
            "2606:2800::1",
            "64:ff9b::a60:1",
            "::ffff:10.96.0.1",
            "2002:a60:1::1",
            "2001:db8::1",
            "100.64.0.1",
        ] {
            assert!(allows(AddressScope::Network, address), "{address}");
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
            "fd00:ec2::23",
            "fd00:ec2:ffff::1",
            "fd20:ce::254",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b::169.254.169.254",
            "64:ff9b::100.100.100.200",
            "2001:0:53aa:64c:0:7fff:5601:5601",
            "2002:a9fe:a9fe::1",
            "fe80::5efe:169.254.169.254",
            "2001:db8::5efe:127.0.0.1",
            "2001:db8::200:5efe:127.0.0.1",
            "::ffff:0:127.0.0.1",
            "::ffff:0:169.254.169.254",
            "::169.254.169.254",
            "::ffff:100.100.100.200",
            "::ffff:168.63.129.16",
            "fec0::1",
            "febf::1",
            "100::1",
            "169.254.170.2",
            "169.254.170.23",
            "192.0.0.192",
            "240.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "::127.0.0.1",
        ] {
            assert!(!allows(AddressScope::Network, address), "{address}");
            assert!(allows(AddressScope::ThisAddress, address), "{address}");
        }
    }

    #[test]
    fn localhost_reaches_only_loopback_addresses() {
        assert!(allows(AddressScope::Loopback, "127.0.0.1"));
        assert!(allows(AddressScope::Loopback, "::1"));
        assert!(!allows(AddressScope::Loopback, "10.0.0.1"));
        assert!(!allows(AddressScope::Loopback, "169.254.169.254"));
    }
}
