//! Endpoints and EndpointSlices.

use std::net::IpAddr;

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{PROTOCOLS, ip, items, push_invalid, text, validate_one_of, validate_port_number};
use crate::schema::{field, names};
use crate::status::Causes;

pub(super) fn validate_endpoints(endpoints: &Value, causes: &mut Causes) {
    for (index, subset) in items(&endpoints["subsets"]).iter().enumerate() {
        let at = field::index("subsets", index);
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| items(&subset[*list]).is_empty()) {
            causes.push(field::required(&at, "must specify `addresses` or `notReadyAddresses`"));
        }
        for list in lists {
            let at = field::child(&at, list);
            for (index, address) in items(&subset[list]).iter().enumerate() {
                validate_address(address, &field::index(&at, index), causes);
            }
        }
        let ports = items(&subset["ports"]);
        for (index, port) in ports.iter().enumerate() {
            validate_port(port, ports.len() > 1, &field::index(&field::child(&at, "ports"), index), causes);
        }
    }
}

fn validate_address(address: &Value, at: &str, causes: &mut Causes) {
    let (path, ip) = (field::child(at, "ip"), text(address, "ip"));
    if let Some(problem) = ip::address_error(ip) {
        causes.push(field::invalid(&path, &Value::from(ip), problem));
    }
    validate_endpoint_ip(ip, &path, causes);
    let hostname = text(address, "hostname");
    if !hostname.is_empty() {
        push_invalid(causes, &field::child(at, "hostname"), hostname, names::label_errors(hostname));
    }
}

fn validate_port(port: &Value, is_name_required: bool, at: &str, causes: &mut Causes) {
    let (path, name) = (field::child(at, "name"), text(port, "name"));
    if !name.is_empty() {
        push_invalid(causes, &path, name, names::label_errors(name));
    } else if is_name_required {
        causes.push(field::required(&path, ""));
    }
    validate_port_number(port, "port", at, causes);
    validate_one_of(port, "protocol", at, &PROTOCOLS, causes);
}

/// Checks that an address can be that of a Pod (`ValidateEndpointIP`). In contrast to Kubernetes, it can be a loopback address, because the
/// servers behind a Service usually run on the machine of the tests.
fn validate_endpoint_ip(text: &str, path: &str, causes: &mut Causes) {
    let value = Value::from(text);
    let mut refuse = |detail: &str| causes.push(field::invalid(path, &value, detail));
    let Ok(ip) = text.parse::<IpAddr>() else { return refuse("must be a valid IP address") };
    if ip.is_unspecified() {
        refuse(&format!("may not be unspecified ({text})"));
    }
    let (is_link_local, is_link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if is_link_local {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if is_link_local_multicast {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

pub(super) fn validate_slice(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let kind = text(new, "addressType");
    if kind.is_empty() {
        causes.push(field::required("addressType", ""));
    }
    validate_one_of(new, "addressType", "", &["FQDN", "IPv4", "IPv6"], causes);
    let mut port_names = HashSet::default();
    for (index, port) in items(&new["ports"]).iter().enumerate() {
        let at = field::index("ports", index);
        let (path, name) = (field::child(&at, "name"), text(port, "name"));
        if !name.is_empty() {
            push_invalid(causes, &path, name, names::label_errors(name));
        }
        if !port_names.insert(name) {
            causes.push(field::duplicate(&path, &Value::from(name)));
        }
        validate_one_of(port, "protocol", &at, &PROTOCOLS, causes);
        if let Some(protocol) = port["appProtocol"].as_str() {
            let errors = names::qualified_name_errors(protocol);
            push_invalid(causes, &field::child(&at, "appProtocol"), protocol, errors);
        }
    }
    // Endpoints that an update leaves as they are may stay invalid.
    if old.is_none_or(|old| old["endpoints"] != new["endpoints"]) {
        for (index, endpoint) in items(&new["endpoints"]).iter().enumerate() {
            validate_endpoint(endpoint, kind, &field::index("endpoints", index), causes);
        }
    }
    if let Some(old) = old
        && old.get("addressType") != new.get("addressType")
    {
        causes.push(field::invalid("addressType", &new["addressType"], "field is immutable"));
    }
}

fn validate_endpoint(endpoint: &Value, kind: &str, at: &str, causes: &mut Causes) {
    const MOST_ADDRESSES: u64 = 100;
    let path = field::child(at, "addresses");
    let addresses = items(&endpoint["addresses"]);
    if addresses.is_empty() {
        causes.push(field::required(&path, "must contain at least 1 address"));
    } else if addresses.len() as u64 > MOST_ADDRESSES {
        causes.push(field::too_many(&path, addresses.len(), MOST_ADDRESSES));
    }
    for (index, address) in addresses.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        let ip = address.parse::<IpAddr>().ok();
        let at = field::index(&path, index);
        let mut refuse = |detail: &str| causes.push(field::invalid(&path, &Value::from(address), detail));
        match kind {
            "IPv4" if !ip.is_some_and(|ip| ip.is_ipv4()) => refuse("must be an IPv4 address"),
            "IPv6" if !ip.is_some_and(|ip| ip.is_ipv6()) => refuse("must be an IPv6 address"),
            _ => {}
        }
        match kind {
            "IPv4" | "IPv6" => validate_endpoint_ip(address, &at, causes),
            "FQDN" => push_invalid(causes, &at, address, names::subdomain_errors(address)),
            _ => {}
        }
    }
    if let Some(node) = endpoint["nodeName"].as_str() {
        push_invalid(causes, &field::child(at, "nodeName"), node, names::subdomain_errors(node));
    }
    if let Some(hostname) = endpoint["hostname"].as_str() {
        push_invalid(causes, &field::child(at, "hostname"), hostname, names::label_errors(hostname));
    }
    let hints = field::child(at, "hints");
    validate_hints(&endpoint["hints"], "forZones", &hints, names::label_value_errors, causes);
    validate_hints(&endpoint["hints"], "forNodes", &hints, names::subdomain_errors, causes);
}

/// Checks the zones or Nodes that an endpoint is for.
fn validate_hints(
    hints: &Value,
    list: &str,
    at: &str,
    name_errors: fn(&str) -> Vec<String>,
    causes: &mut Causes,
) {
    const MOST_HINTS: u64 = 8;
    let (path, targets) = (field::child(at, list), items(&hints[list]));
    if targets.len() as u64 > MOST_HINTS {
        causes.push(field::too_many(&path, targets.len(), MOST_HINTS));
        return;
    }
    let mut found = HashSet::default();
    for (index, target) in targets.iter().enumerate() {
        let (at, name) = (field::child(&field::index(&path, index), "name"), text(target, "name"));
        if !found.insert(name) {
            causes.push(field::duplicate(&at, &name.into()));
        }
        push_invalid(causes, &at, name, name_errors(name));
    }
}
