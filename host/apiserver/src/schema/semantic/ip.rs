//! The syntax of IP addresses and CIDRs, with the messages of `k8s.io/apimachinery/pkg/util/validation`.

use std::net::{IpAddr, Ipv4Addr};

use super::IP_ADDRESS;

pub(super) const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Returns what is wrong with an IP address.
pub(super) fn address_error(text: &str) -> Option<&'static str> {
    match text.parse::<IpAddr>() {
        Ok(address) if is_mapped(address) => Some("must not be an IPv4-mapped IPv6 address"),
        Ok(_) => None,
        Err(_) if without_zeros(text).is_some() => Some("must not have leading 0s"),
        Err(_) => Some(IP_ADDRESS),
    }
}

/// Returns what is wrong with a CIDR.
pub(super) fn cidr_error(text: &str) -> Option<&'static str> {
    let Some((address, bits)) = text.split_once('/') else { return Some(CIDR) };
    let strict = address.parse::<IpAddr>().ok();
    let Some(ip) = strict.or_else(|| without_zeros(address)) else { return Some(CIDR) };
    let has_digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let length = if ip.is_ipv4() { 32 } else { 128 };
    let Some(prefix) = bits.parse::<u32>().ok().filter(|bits| has_digits && *bits <= length) else {
        return Some(CIDR);
    };
    if strict.is_none() || (bits.len() > 1 && bits.starts_with('0')) {
        return Some("must not have leading 0s in IP or prefix length");
    }
    if is_mapped(ip) {
        return Some("must not have an IPv4-mapped IPv6 address");
    }
    let number = match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    // A shift by all bits of the number would be too much.
    let host_bits = 1_u128.checked_shl(length - prefix).map_or(number, |host| number & (host - 1));
    (host_bits != 0).then_some("must not have bits set beyond the prefix length")
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// Returns an IPv4 address whose parts may have leading zeros.
fn without_zeros(text: &str) -> Option<IpAddr> {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = text.split('.').map(|part| part.parse::<u8>().ok().filter(|_| is_part(part)));
    let octets = [parts.next()??, parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then(|| Ipv4Addr::from(octets).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_form() {
        for (address, error) in [
            ("1.2.3.4", None),
            ("2001:DB8::1", None),
            ("x", Some(IP_ADDRESS)),
            ("1.2.3", Some(IP_ADDRESS)),
            ("+1.2.3.4", Some(IP_ADDRESS)),
            ("01.2.3.4", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
        ] {
            assert_eq!(address_error(address), error, "{address}");
        }
    }

    #[test]
    fn cidrs_have_no_host_bits() {
        const BITS: Option<&str> = Some("must not have bits set beyond the prefix length");
        const ZEROS: Option<&str> = Some("must not have leading 0s in IP or prefix length");
        for (cidr, error) in [
            ("1.2.3.0/24", None),
            ("0.0.0.0/0", None),
            ("::/0", None),
            ("1.2.3.4/32", None),
            ("1.2.3.4/0", BITS),
            ("::1/0", BITS),
            ("1.2.3.4/8", BITS),
            ("01.2.3.4/32", ZEROS),
            ("1.2.3.4/032", ZEROS),
            ("::ffff:1.2.3.4/128", Some("must not have an IPv4-mapped IPv6 address")),
            ("1.2.3.4", Some(CIDR)),
            ("1.2.3.4/33", Some(CIDR)),
            ("1.2.3.4/+1", Some(CIDR)),
            ("x/8", Some(CIDR)),
        ] {
            assert_eq!(cidr_error(cidr), error, "{cidr}");
        }
    }
}
