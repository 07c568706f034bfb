//! Which addresses a host may have that a registry names, for a token or by a redirect. A hostile registry could otherwise have this host send
//! requests into the cluster's network, to its own ports or to a cloud's metadata service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not on the public internet, each with the length of its prefix in bits.
const NOT_PUBLIC: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Carrier-grade NAT, which holds the metadata service of one cloud.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, and the reserved range above it.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Whether the address is on the public internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let is_in =
                |(network, bits): &(Ipv4Addr, u32)| (v4.to_bits() ^ network.to_bits()) >> (32 - bits) == 0;
            !NOT_PUBLIC.iter().any(is_in)
        }
        IpAddr::V6(v6) => match v6.segments() {
            // IPv4-mapped, and NAT64 with the well-known prefix.
            [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                is_public(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
            }
            _ => is_public_v6(v6),
        },
    }
}

/// Only 2000::/3 is assigned to the internet. Of it, 6to4 and the special networks of 2001::/23 embed addresses or are not routed.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let special =
        first == 0x2002 || (first == 0x2001 && (second < 0x200 || second == 0xdb8)) || first == 0x3fff;
    first & 0xe000 == 0x2000 && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        let is_public =
            |text: &str| is_public(text.parse().unwrap_or_else(|error| panic!("{text}: {error}")));
        for address in
            ["93.184.215.14", "8.8.8.8", "172.32.0.1", "2606:2800::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert!(is_public(address), "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.96.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "168.63.129.16",
            "169.254.169.254",
            "172.31.255.255",
            "192.168.1.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "::127.0.0.1",
            "fec0::1",
        ] {
            assert!(!is_public(address), "{address}");
        }
    }
}
