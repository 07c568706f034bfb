//! Ingresses and NetworkPolicies.

use std::net::IpAddr;

use serde_json::Value;

use super::{
    PORT_RANGE, autoscaling, has, ip, items, push_invalid, text, validate_label_selector, validate_one_of,
    validate_port_number, validate_port_number_or_name,
};
use crate::schema::{field, names};
use crate::status::Causes;

/// The annotation of an Ingress that names its class.
const CLASS: &str = "kubernetes.io/ingress.class";

pub(super) fn validate_ingress(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let spec = &new["spec"];
    let rules = items(&spec["rules"]);
    if rules.is_empty() && !has(spec, "defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        causes.push(field::invalid("spec", &Value::Null, detail));
    }
    if has(spec, "defaultBackend") {
        validate_backend(&spec["defaultBackend"], "spec.defaultBackend", causes);
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = field::index("spec.rules", index);
        validate_host(text(rule, "host"), &field::child(&at, "host"), causes);
        if !has(rule, "http") {
            continue;
        }
        let at = field::child(&at, "http.paths");
        let paths = items(&rule["http"]["paths"]);
        if paths.is_empty() {
            causes.push(field::required(&at, ""));
        }
        for (index, path) in paths.iter().enumerate() {
            validate_path(path, &field::index(&at, index), causes);
        }
    }
    for (index, tls) in items(&spec["tls"]).iter().enumerate() {
        let at = field::index("spec.tls", index);
        for (index, host) in items(&tls["hosts"]).iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            let at = field::index(&field::child(&at, "hosts"), index);
            push_invalid(causes, &at, host, names::host_errors(host));
        }
        let secret = text(tls, "secretName");
        // A stored Ingress may have an invalid one.
        if !secret.is_empty() && old.is_none() {
            push_invalid(causes, &field::child(&at, "secretName"), secret, names::subdomain_errors(secret));
        }
    }
    let Some(class) = spec["ingressClassName"].as_str() else { return };
    push_invalid(causes, "spec.ingressClassName", class, names::subdomain_errors(class));
    if old.is_none()
        && let Some(annotation) = new["metadata"]["annotations"].get(CLASS)
        && annotation != class
    {
        let detail = "must match `ingressClassName` when both are specified";
        causes.push(field::invalid(&field::child("annotations", CLASS), annotation, detail));
    }
}

fn validate_host(host: &str, at: &str, causes: &mut Causes) {
    if host.is_empty() {
        return;
    }
    if host.parse::<IpAddr>().is_ok() {
        let detail = "must be a DNS name, not an IP address";
        causes.push(field::invalid(at, &Value::from(host), detail));
        return;
    }
    push_invalid(causes, at, host, names::host_errors(host));
}

fn validate_path(path: &Value, at: &str, causes: &mut Causes) {
    let type_path = field::child(at, "pathType");
    let value = text(path, "path");
    let mut refuse =
        |detail: &str| causes.push(field::invalid(&field::child(at, "path"), &Value::from(value), detail));
    match path.get("pathType").and_then(Value::as_str) {
        Some("Exact" | "Prefix") => {
            if !value.starts_with('/') {
                refuse("must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|part| value.contains(**part)) {
                refuse(&format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].iter().filter(|end| value.ends_with(**end)) {
                refuse(&format!("cannot end with '{end}'"));
            }
        }
        Some("ImplementationSpecific") => {
            if !value.is_empty() && !value.starts_with('/') {
                refuse("must be an absolute path");
            }
        }
        None => causes.push(field::required(&type_path, "pathType must be specified")),
        Some(other) => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            causes.push(field::not_supported(&type_path, &Value::from(other), &known));
        }
    }
    validate_backend(&path["backend"], &field::child(at, "backend"), causes);
}

fn validate_backend(backend: &Value, at: &str, causes: &mut Causes) {
    let nothing = Value::from("");
    match (has(backend, "resource"), has(backend, "service")) {
        (true, true) => {
            let detail = "cannot set both resource and service backends";
            causes.push(field::invalid(at, &nothing, detail));
        }
        (true, false) => {
            validate_typed_reference(&backend["resource"], &field::child(at, "resource"), causes);
        }
        (false, true) => validate_service_backend(&backend["service"], at, causes),
        (false, false) => {
            causes.push(field::invalid(at, &nothing, "resource or service backend is required"));
        }
    }
}

/// Checks the group, the kind and the name of a reference.
pub(super) fn validate_typed_reference(reference: &Value, at: &str, causes: &mut Causes) {
    if let Some(group) = reference["apiGroup"].as_str() {
        push_invalid(causes, &field::child(at, "apiGroup"), group, names::subdomain_errors(group));
    }
    autoscaling::validate_reference(reference, at, causes);
}

fn validate_service_backend(service: &Value, at: &str, causes: &mut Causes) {
    let (path, name) = (field::child(at, "service.name"), text(service, "name"));
    if name.is_empty() {
        causes.push(field::required(&path, ""));
    } else {
        push_invalid(causes, &path, name, names::label_errors(name));
    }
    let port = &service["port"];
    let (port_name, number) = (text(port, "name"), port["number"].as_i64().unwrap_or(0));
    let at_port = field::child(at, "service.port");
    match (!port_name.is_empty(), number != 0) {
        (true, true) => {
            let detail = "cannot set both port name & port number";
            causes.push(field::invalid(at, &Value::from(""), detail));
        }
        (true, false) => {
            push_invalid(
                causes,
                &field::child(&at_port, "name"),
                port_name,
                names::port_name_errors(port_name),
            );
        }
        (false, true) => validate_port_number(port, "number", &at_port, causes),
        (false, false) => causes.push(field::required(at, "port name or number is required")),
    }
}

pub(super) fn validate_policy(spec: &Value, causes: &mut Causes) {
    validate_label_selector(&spec["podSelector"], "spec.podSelector", causes);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let at = field::child("spec", direction);
        for (index, rule) in items(&spec[direction]).iter().enumerate() {
            let at = field::index(&at, index);
            for (index, port) in items(&rule["ports"]).iter().enumerate() {
                validate_policy_port(port, &field::index(&field::child(&at, "ports"), index), causes);
            }
            for (index, peer) in items(&rule[peers]).iter().enumerate() {
                validate_peer(peer, &field::index(&field::child(&at, peers), index), causes);
            }
        }
    }
    let types = items(&spec["policyTypes"]);
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        causes.push(field::invalid("spec.policyTypes", &spec["policyTypes"], detail));
        return;
    }
    let known = ["Ingress", "Egress"];
    for (index, kind) in types.iter().enumerate().filter(|(_, kind)| !known.iter().any(|name| kind == name)) {
        causes.push(field::not_supported(&field::index("spec.policyTypes", index), kind, &known));
    }
}

fn validate_policy_port(port: &Value, at: &str, causes: &mut Causes) {
    validate_one_of(port, "protocol", at, &["TCP", "UDP", "SCTP"], causes);
    let (start, end) = (&port["port"], &port["endPort"]);
    let (has_end, at_end) = (end.is_i64() || end.is_u64(), field::child(at, "endPort"));
    if start.is_string() && has_end {
        let detail = "may not be specified when `port` is non-numeric";
        causes.push(field::invalid(&at_end, end, detail));
    }
    validate_port_number_or_name(port, "port", at, causes);
    if start.is_null() && has_end {
        let detail = "may not be specified when `port` is not specified";
        causes.push(field::invalid(&at_end, end, detail));
    }
    if let (Some(first), Some(last)) = (start.as_i64(), end.as_i64()) {
        if last < first {
            // As in Kubernetes, the value is that of `port`.
            causes.push(field::invalid(&at_end, start, "must be greater than or equal to `port`"));
        }
        if !(1..=65535).contains(&last) {
            causes.push(field::invalid(&at_end, end, PORT_RANGE));
        }
    }
}

fn validate_peer(peer: &Value, at: &str, causes: &mut Causes) {
    let selectors = ["podSelector", "namespaceSelector"];
    for selector in selectors {
        validate_label_selector(&peer[selector], &field::child(at, selector), causes);
    }
    let has_selector = selectors.iter().any(|selector| has(peer, selector));
    let has_block = has(peer, "ipBlock");
    if has_block {
        validate_block(&peer["ipBlock"], &field::child(at, "ipBlock"), causes);
    }
    match (has_selector, has_block) {
        (false, false) => causes.push(field::required(at, "must specify a peer")),
        (true, true) => {
            causes.push(field::forbidden(at, "may not specify both ipBlock and another peer"));
        }
        _ => {}
    }
}

fn validate_block(block: &Value, at: &str, causes: &mut Causes) {
    let (path, cidr) = (field::child(at, "cidr"), text(block, "cidr"));
    if cidr.is_empty() {
        causes.push(field::required(&path, ""));
        return;
    }
    validate_cidr(cidr, &path, causes);
    let Some(network) = parse_cidr(cidr) else { return };
    for (index, except) in items(&block["except"]).iter().enumerate() {
        let path = field::index(&field::child(at, "except"), index);
        let except = except.as_str().unwrap_or_default();
        validate_cidr(except, &path, causes);
        if parse_cidr(except).is_some_and(|part| part.1 <= network.1 || !is_within(part, network)) {
            causes.push(field::invalid(&path, &except.into(), "must be a strict subset of `cidr`"));
        }
    }
}

fn validate_cidr(cidr: &str, path: &str, causes: &mut Causes) {
    if let Some(problem) = ip::cidr_error(cidr) {
        causes.push(field::invalid(path, &cidr.into(), problem));
    }
}

/// Returns the address and the length of the prefix of a network such as `10.0.0.0/8`.
pub(super) fn parse_cidr(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length: u32 = length.parse().ok()?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// Whether the address of `inner` is in the network `outer`.
fn is_within((inner, _): (IpAddr, u32), (outer, length): (IpAddr, u32)) -> bool {
    match (inner, outer) {
        (IpAddr::V4(inner), IpAddr::V4(outer)) => {
            let shift = 32 - length;
            u32::from(inner).checked_shr(shift) == u32::from(outer).checked_shr(shift)
        }
        (IpAddr::V6(inner), IpAddr::V6(outer)) => {
            let shift = 128 - length;
            u128::from(inner).checked_shr(shift) == u128::from(outer).checked_shr(shift)
        }
        _ => false,
    }
}
