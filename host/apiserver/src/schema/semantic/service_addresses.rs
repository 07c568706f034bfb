//! The addresses of Services and their families.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::{ip, items, text};
use crate::schema::field;
use crate::status::Causes;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Checks that the cluster IPs of a Service fit each other and its families. The first one is checked where addresses are allocated.
pub(super) fn validate(spec: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.clusterIPs";
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let addresses = items(&spec["clusterIPs"]);
    let first = text(spec, "clusterIP");
    if first.is_empty() {
        if !addresses.is_empty() {
            let detail = "must be empty when `clusterIP` is not specified";
            causes.push(field::invalid(PATH, &spec["clusterIPs"], detail));
        }
    } else if addresses.first().is_some_and(|address| address != first) {
        causes.push(field::invalid(PATH, &spec["clusterIPs"], "first value must match `clusterIP`"));
    }
    validate_families(spec, causes);
    let mut has_invalid = false;
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && address == "None" {
            if addresses.len() > 1 {
                has_invalid = true;
                let detail = "'None' must be the first and only value";
                causes.push(field::invalid(PATH, &spec["clusterIPs"], detail));
            }
        } else if let Some(problem) = ip::address_error(address.as_str().unwrap_or_default()) {
            has_invalid = true;
            if index > 0 {
                causes.push(field::invalid(&field::index(PATH, index), address, problem));
            }
        }
    }
    if addresses.len() > 2 {
        causes.push(field::invalid(PATH, &spec["clusterIPs"], "may only hold up to 2 values"));
    }
    if has_invalid {
        return;
    }
    if addresses.len() > 1 {
        let families: BTreeSet<bool> =
            addresses.iter().filter_map(parsed).map(|address| address.is_ipv6()).collect();
        if families.len() != 2 {
            let detail = "may specify no more than one IP for each IP family";
            causes.push(field::invalid(PATH, &spec["clusterIPs"], detail));
        }
    }
    for (index, (address, family)) in addresses.iter().zip(items(&spec["ipFamilies"])).enumerate() {
        let Some(is_v6) = parsed(address).map(|address| address.is_ipv6()) else { continue };
        let Some(family) = family.as_str().filter(|family| FAMILIES.contains(family)) else { continue };
        if is_v6 != (family == "IPv6") {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            causes.push(field::invalid(&field::index(PATH, index), address, &detail));
        }
    }
}

fn validate_families(spec: &Value, causes: &mut Causes) {
    let mut seen = BTreeSet::new();
    for (index, family) in items(&spec["ipFamilies"]).iter().enumerate() {
        let path = field::index("spec.ipFamilies", index);
        let name = family.as_str().unwrap_or_default();
        if !FAMILIES.contains(&name) {
            causes.push(field::not_supported(&path, family, &FAMILIES));
        }
        if !seen.insert(name) {
            causes.push(field::duplicate(&path, family));
        }
    }
    if let Some(policy) = spec["ipFamilyPolicy"].as_str().filter(|policy| !POLICIES.contains(policy)) {
        causes.push(field::not_supported("spec.ipFamilyPolicy", &policy.into(), &POLICIES));
    }
}

/// Checks the external IPs, which may be no special addresses.
pub(super) fn validate_external(spec: &Value, causes: &mut Causes) {
    for (index, address) in items(&spec["externalIPs"]).iter().enumerate() {
        let path = field::index("spec.externalIPs", index);
        if let Some(problem) = ip::address_error(address.as_str().unwrap_or_default()) {
            causes.push(field::invalid(&path, address, problem));
            continue;
        }
        let Some(ip) = parsed(address) else { continue };
        let (is_link_local, is_link_local_multicast) = match ip {
            IpAddr::V4(ip) => (ip.is_link_local(), matches!(ip.octets(), [224, 0, 0, _])),
            IpAddr::V6(ip) => ((ip.segments()[0] & 0xffc0) == 0xfe80, (ip.segments()[0] & 0xff0f) == 0xff02),
        };
        for (is_special, detail) in [
            (
                ip.is_unspecified(),
                format!("may not be unspecified ({})", address.as_str().unwrap_or_default()),
            ),
            (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
            (is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
            (
                is_link_local_multicast,
                "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
            ),
        ] {
            if is_special {
                causes.push(field::invalid(&path, address, &detail));
            }
        }
    }
}

fn parsed(address: &Value) -> Option<IpAddr> {
    address.as_str()?.parse().ok()
}
