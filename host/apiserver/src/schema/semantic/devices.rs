//! Devices: DeviceClasses, ResourceClaims and their templates. Of CEL expressions only the presence is checked.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{has, items, push_invalid, text};
use crate::schema::{field, names};
use crate::status::Causes;

/// The most requests, constraints, configurations or selectors of a list.
const MAX_ITEMS: usize = 32;

pub(super) fn validate(kind: &str, spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    match kind {
        "DeviceClass" => {
            validate_selectors(spec, "spec", causes);
            validate_configurations(spec, "spec", causes);
        }
        "ResourceClaim" | "ResourceClaimTemplate" => {
            if let Some(old) = old {
                if old.get("spec") != Some(spec) {
                    causes.push(field::invalid("spec", spec, "field is immutable"));
                }
            } else if kind == "ResourceClaim" {
                validate_claim(&spec["devices"], "spec.devices", causes);
            } else {
                validate_claim(&spec["spec"]["devices"], "spec.spec.devices", causes);
            }
        }
        _ => {}
    }
}

fn validate_claim(claim: &Value, at: &str, causes: &mut Causes) {
    let requests = items(&claim["requests"]);
    let path = field::child(at, "requests");
    validate_length(requests, &path, causes);
    let mut seen = BTreeSet::new();
    for (index, request) in requests.iter().enumerate() {
        let path = field::index(&path, index);
        validate_request(request, &path, causes);
        if !seen.insert(text(request, "name")) {
            causes.push(field::duplicate(&path, &request["name"]));
        }
    }
    let path = field::child(at, "constraints");
    for (index, constraint) in items(&claim["constraints"]).iter().enumerate() {
        let path = field::index(&path, index);
        validate_references(constraint, requests, &path, causes);
        if !has(constraint, "matchAttribute") && !has(constraint, "distinctAttribute") {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple \
                          fields are set";
            causes.push(field::required(&path, detail));
        }
    }
    let path = field::child(at, "config");
    for (index, configuration) in items(&claim["config"]).iter().enumerate() {
        validate_references(configuration, requests, &field::index(&path, index), causes);
    }
    validate_configurations(claim, at, causes);
}

fn validate_request(request: &Value, at: &str, causes: &mut Causes) {
    validate_name(request, "name", names::label_errors, at, causes);
    let alternatives = items(&request["firstAvailable"]);
    match (has(request, "exactly"), !alternatives.is_empty()) {
        (false, false) => {
            causes.push(field::required(at, "exactly one of `exactly` or `firstAvailable` is required"));
        }
        (true, true) => {
            let detail =
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            causes.push(field::invalid(at, &Value::Null, detail));
        }
        (true, false) => {
            validate_devices(&request["exactly"], &field::child(at, "exactly"), causes);
        }
        (false, true) => {
            let path = field::child(at, "firstAvailable");
            let mut seen = BTreeSet::new();
            for (index, alternative) in alternatives.iter().enumerate() {
                let path = field::index(&path, index);
                validate_name(alternative, "name", names::label_errors, &path, causes);
                validate_devices(alternative, &path, causes);
                if !seen.insert(text(alternative, "name")) {
                    causes.push(field::duplicate(&path, &alternative["name"]));
                }
            }
        }
    }
}

/// Checks which devices a request asks for, and how many.
fn validate_devices(request: &Value, at: &str, causes: &mut Causes) {
    validate_name(request, "deviceClassName", names::subdomain_errors, at, causes);
    validate_selectors(request, at, causes);
    let count = request["count"].as_i64().unwrap_or(0);
    let path = field::child(at, "count");
    match text(request, "allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            causes.push(field::invalid(&path, &count.into(), detail));
        }
        "ExactCount" if count <= 0 => {
            causes.push(field::invalid(&path, &count.into(), "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        other => {
            let path = field::child(at, "allocationMode");
            causes.push(field::not_supported(&path, &other.into(), &["All", "ExactCount"]));
        }
    }
}

fn validate_name(object: &Value, name: &str, errors: fn(&str) -> Vec<String>, at: &str, causes: &mut Causes) {
    let path = field::child(at, name);
    match text(object, name) {
        "" => causes.push(field::required(&path, "")),
        value => push_invalid(causes, &path, value, errors(value)),
    }
}

/// Checks that the requests to which a constraint or a configuration applies exist.
pub(super) fn validate_references(object: &Value, requests: &[Value], at: &str, causes: &mut Causes) {
    let path = field::child(at, "requests");
    for (index, name) in items(&object["requests"]).iter().enumerate() {
        validate_reference(name, requests, &field::index(&path, index), causes);
    }
}

/// Checks that a request exists, or an alternative of one, which follows a slash.
pub(super) fn validate_reference(name: &Value, requests: &[Value], path: &str, causes: &mut Causes) {
    let reference = name.as_str().unwrap_or_default();
    let (request, alternative) =
        reference.split_once('/').map_or((reference, None), |(first, second)| (first, Some(second)));
    let mut named = requests.iter().filter(|candidate| text(candidate, "name") == request);
    let exists = named.any(|request| {
        alternative.is_none_or(|alternative| {
            let mut alternatives = items(&request["firstAvailable"]).iter();
            alternatives.any(|candidate| text(candidate, "name") == alternative)
        })
    });
    if !exists {
        let detail = "must be the name of a request in the claim or the name of a request and a subrequest \
                      separated by '/'";
        causes.push(field::invalid(path, name, detail));
    }
}

fn validate_selectors(object: &Value, at: &str, causes: &mut Causes) {
    let (path, selectors) = (field::child(at, "selectors"), items(&object["selectors"]));
    validate_length(selectors, &path, causes);
    for (index, selector) in selectors.iter().enumerate() {
        if !has(selector, "cel") {
            causes.push(field::required(&field::child(&field::index(&path, index), "cel"), ""));
        }
    }
}

fn validate_configurations(object: &Value, at: &str, causes: &mut Causes) {
    let (path, configurations) = (field::child(at, "config"), items(&object["config"]));
    validate_length(configurations, &path, causes);
    for (index, configuration) in configurations.iter().enumerate() {
        if !has(configuration, "opaque") {
            causes.push(field::required(&field::child(&field::index(&path, index), "opaque"), ""));
        }
    }
}

fn validate_length(list: &[Value], at: &str, causes: &mut Causes) {
    if list.len() > MAX_ITEMS {
        causes.push(field::too_many(at, list.len(), MAX_ITEMS as u64));
    }
}
