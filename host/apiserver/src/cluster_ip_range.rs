//! The range from which Services get their cluster IPs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// The fewest bits of a network: a network with fewer has more addresses than kube-apiserver allows.
const MIN_PREFIX: u8 = 12;
/// The most bits of a network: kube-apiserver needs eight addresses.
const MAX_PREFIX: u8 = 29;

/// A range of IPv4 addresses for Services, such as `10.96.0.0/12`, which is the default, as in kubeadm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterIpRange {
    /// The network address.
    network: u32,
    prefix: u8,
}

impl Default for ClusterIpRange {
    fn default() -> Self {
        Self { network: Ipv4Addr::new(10, 96, 0, 0).to_bits(), prefix: 12 }
    }
}

impl ClusterIpRange {
    /// Returns the address of the Service `kubernetes`, which is the first one.
    pub(crate) fn first(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network + 1)
    }

    /// Whether an address belongs to the network.
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address.to_bits() & mask(self.prefix) == self.network,
            IpAddr::V6(_) => false,
        }
    }

    /// Returns all addresses that a Service can have, beginning with the one at the position `start`.
    pub(crate) fn addresses_from(self, start: u32) -> impl Iterator<Item = Ipv4Addr> {
        // The first address is that of the network and the last one is for broadcasts.
        let (first, count) = (self.network + 1, !mask(self.prefix) - 1);
        (0..count).map(move |offset| Ipv4Addr::from_bits(first + (start % count + offset) % count))
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX << (32 - prefix)
}

impl fmt::Display for ClusterIpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.network), self.prefix)
    }
}

/// The error for a text that is not a [`ClusterIpRange`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidClusterIpRange(String);

impl fmt::Display for InvalidClusterIpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(
            f,
            "{text:?} is not an IPv4 network of {MIN_PREFIX} to {MAX_PREFIX} bits, such as 10.96.0.0/12"
        )
    }
}

impl std::error::Error for InvalidClusterIpRange {}

impl FromStr for ClusterIpRange {
    type Err = InvalidClusterIpRange;

    /// Reads a network. As in kube-apiserver, bits of the address beyond the prefix do not matter.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text
            .split_once('/')
            .and_then(|(address, prefix)| Some((address.parse::<Ipv4Addr>().ok()?, prefix.parse().ok()?)));
        match parts {
            Some((address, prefix)) if (MIN_PREFIX..=MAX_PREFIX).contains(&prefix) => {
                Ok(Self { network: address.to_bits() & mask(prefix), prefix })
            }
            _ => Err(InvalidClusterIpRange(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> ClusterIpRange {
        text.parse().expect("a range")
    }

    #[test]
    fn text_is_a_network_of_a_size_that_kube_apiserver_allows() {
        assert_eq!(range("10.96.0.0/12"), ClusterIpRange::default());
        assert_eq!(range("10.0.0.77/24").to_string(), "10.0.0.0/24");
        for refused in ["", "10.0.0.0", "10.0.0.0/11", "10.0.0.0/30", "fd00::/108", "10.0.0.0/24,fd00::/108"]
        {
            assert!(refused.parse::<ClusterIpRange>().is_err(), "{refused}");
        }
    }

    #[test]
    fn addresses_of_the_network_and_for_broadcasts_are_left_out() {
        let all: Vec<String> = range("10.0.0.8/29").addresses_from(4).map(|ip| ip.to_string()).collect();
        assert_eq!(all, ["10.0.0.13", "10.0.0.14", "10.0.0.9", "10.0.0.10", "10.0.0.11", "10.0.0.12"]);
        assert_eq!(range("10.0.0.8/29").first().to_string(), "10.0.0.9");
    }

    #[test]
    fn network_contains_its_addresses_only() {
        let contains = |ip: &str| range("10.0.0.0/24").contains(ip.parse().expect("an address"));
        assert!(contains("10.0.0.0") && contains("10.0.0.255"));
        assert!(!contains("10.0.1.0") && !contains("9.255.255.255") && !contains("::ffff:10.0.0.1"));
    }
}
