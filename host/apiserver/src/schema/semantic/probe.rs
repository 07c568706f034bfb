//! The probes of containers.

use serde_json::Value;

use super::{has, items, lifecycle, text, validate_non_negative, validate_port_number_or_name};
use crate::schema::field;
use crate::status::Causes;

/// Checks the probes of the container at `at`.
pub(super) fn validate_all(container: &Value, at: &str, causes: &mut Causes) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let (probe, at) = (&container[name], field::child(at, name));
        if !probe.is_object() {
            continue;
        }
        validate_handler(probe, &at, causes);
        for number in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            validate_non_negative(probe, number, &at, causes);
        }
        let grace = &probe["terminationGracePeriodSeconds"];
        if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
            let path = field::child(&at, "terminationGracePeriodSeconds");
            causes.push(field::invalid(&path, grace, "must be greater than 0"));
        }
        let threshold = &probe["successThreshold"];
        if name == "readinessProbe" && !grace.is_null() {
            let path = field::child(&at, "terminationGracePeriodSeconds");
            causes.push(field::invalid(&path, grace, "must not be set for readinessProbes"));
        }
        if name != "readinessProbe" && threshold.as_i64().is_some_and(|number| number != 1) {
            causes.push(field::invalid(&field::child(&at, "successThreshold"), threshold, "must be 1"));
        }
    }
}

fn validate_handler(probe: &Value, at: &str, causes: &mut Causes) {
    let mut found = false;
    for handler in ["exec", "httpGet", "tcpSocket", "grpc"].into_iter().filter(|name| has(probe, name)) {
        let (value, at) = (&probe[handler], field::child(at, handler));
        if found {
            causes.push(field::forbidden(&at, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match handler {
            "exec" if items(&value["command"]).is_empty() => {
                causes.push(field::required(&field::child(&at, "command"), ""));
            }
            "exec" => {}
            _ => validate_request(handler, value, &at, causes),
        }
    }
    if !found {
        causes.push(field::required(at, "must specify a handler type"));
    }
}

/// Checks where a handler of this kind connects to.
pub(super) fn validate_request(kind: &str, request: &Value, at: &str, causes: &mut Causes) {
    if kind == "httpGet" && request.get("path").is_some() && text(request, "path").is_empty() {
        causes.push(field::required(&field::child(at, "path"), ""));
    }
    validate_port_number_or_name(request, "port", at, causes);
    if kind == "httpGet" {
        lifecycle::validate_http(request, at, causes);
    }
}
