//! Ingresses, IngressClasses and NetworkPolicies.

use std::net::IpAddr;

use serde_json::Value;

use super::{
    PORT_RANGE, has, items, push_invalid, text, validate_label_selector, validate_one_of,
    validate_port_number, validate_port_number_or_name,
};
use crate::schema::{field, names};
use crate::status::Causes;

pub(super) fn validate_ingress(spec: &Value, causes: &mut Causes) {
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
        let at = field::child(&field::index("spec.tls", index), "hosts");
        for (index, host) in items(&tls["hosts"]).iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            push_invalid(causes, &field::index(&at, index), host, names::host_errors(host));
        }
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
            let at = field::child(at, "resource");
            let group = text(&backend["resource"], "apiGroup");
            if !group.is_empty() {
                push_invalid(causes, &field::child(&at, "apiGroup"), group, names::subdomain_errors(group));
            }
            for name in ["kind", "name"] {
                if text(&backend["resource"], name).is_empty() {
                    causes.push(field::required(&field::child(&at, name), ""));
                }
            }
        }
        (false, true) => validate_service_backend(&backend["service"], at, causes),
        (false, false) => {
            causes.push(field::invalid(at, &nothing, "resource or service backend is required"));
        }
    }
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

pub(super) fn validate_ingress_class(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    const PATH: &str = "spec.controller";
    let controller = text(spec, "controller");
    match controller.split_once('/') {
        _ if controller.is_empty() => causes.push(field::required(PATH, "")),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            push_invalid(causes, PATH, host, names::subdomain_errors(host));
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            causes.push(field::invalid(PATH, &Value::from(controller), detail));
        }
    }
    if old.is_some_and(|old| old.pointer("/spec/controller") != spec.get("controller")) {
        causes.push(field::invalid(PATH, &Value::from(controller), "field is immutable"));
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
    validate_port_number_or_name(port, "port", at, causes);
    let Some(end) = port["endPort"].as_i64() else { return };
    let problem = match &port["port"] {
        Value::Number(start) if start.as_i64().is_some_and(|start| end < start) => {
            Some("must be greater than or equal to `port`")
        }
        Value::Number(_) if !(1..=65535).contains(&end) => Some(PORT_RANGE),
        Value::Number(_) => None,
        Value::String(_) => Some("may not be specified when `port` is non-numeric"),
        _ => Some("may not be specified when `port` is not specified"),
    };
    if let Some(problem) = problem {
        causes.push(field::invalid(&field::child(at, "endPort"), &port["endPort"], problem));
    }
}

fn validate_peer(peer: &Value, at: &str, causes: &mut Causes) {
    let selectors = ["podSelector", "namespaceSelector"];
    for selector in selectors {
        validate_label_selector(&peer[selector], &field::child(at, selector), causes);
    }
    let has_selector = selectors.iter().any(|selector| has(peer, selector));
    match (has_selector, has(peer, "ipBlock")) {
        (true, false) => {}
        (false, false) => causes.push(field::required(at, "must specify a peer")),
        (true, true) => {
            causes.push(field::forbidden(at, "may not specify both ipBlock and another peer"));
        }
        (false, true) => validate_block(&peer["ipBlock"], &field::child(at, "ipBlock"), causes),
    }
}

fn validate_block(block: &Value, at: &str, causes: &mut Causes) {
    const DETAIL: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let (path, cidr) = (field::child(at, "cidr"), text(block, "cidr"));
    if cidr.is_empty() {
        causes.push(field::required(&path, ""));
        return;
    }
    let Some(network) = parse_cidr(cidr) else {
        causes.push(field::invalid(&path, &Value::from(cidr), DETAIL));
        return;
    };
    for (index, except) in items(&block["except"]).iter().enumerate() {
        let path = field::index(&field::child(at, "except"), index);
        match except.as_str().and_then(parse_cidr) {
            None => causes.push(field::invalid(&path, except, DETAIL)),
            Some(part) if part.1 > network.1 && is_within(part, network) => {}
            Some(_) => causes.push(field::invalid(&path, except, "must be a strict subset of `cidr`")),
        }
    }
}

/// Returns the address and the length of the prefix of a network such as `10.0.0.0/8`.
fn parse_cidr(text: &str) -> Option<(IpAddr, u32)> {
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
