//! What containers do after they started and before they stop.

use serde_json::Value;

use super::{has, items, probe, text};
use crate::schema::field;
use crate::status::Causes;

const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// Checks the handlers of the container at `at`. `pod` is the specification of its Pod.
pub(super) fn validate_all(container: &Value, pod: &Value, at: &str, causes: &mut Causes) {
    let at = field::child(at, "lifecycle");
    for name in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][name];
        if handler.is_object() {
            validate(handler, pod, &field::child(&at, name), causes);
        }
    }
}

fn validate(handler: &Value, pod: &Value, at: &str, causes: &mut Causes) {
    let mut found = false;
    for kind in HANDLERS.into_iter().filter(|kind| has(handler, kind)) {
        let (value, at) = (&handler[kind], field::child(at, kind));
        if found {
            causes.push(field::forbidden(&at, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match kind {
            "exec" if items(&value["command"]).is_empty() => {
                causes.push(field::required(&field::child(&at, "command"), ""));
            }
            "exec" => {}
            "sleep" => {
                let (seconds, most) = (&value["seconds"], &pod["terminationGracePeriodSeconds"]);
                let most = most.as_i64().unwrap_or(30);
                if !(0..=most).contains(&seconds.as_i64().unwrap_or(0)) {
                    let detail =
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({most})");
                    causes.push(field::invalid(&at, seconds, &detail));
                }
            }
            _ => probe::validate_request(kind, value, &at, causes),
        }
    }
    if !found {
        causes.push(field::required(at, "must specify a handler type"));
    }
}

/// Whether a text is the name of an HTTP header.
pub(super) fn is_header(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Checks the scheme and the headers of an HTTP request.
pub(super) fn validate_http(request: &Value, at: &str, causes: &mut Causes) {
    let schemes = ["HTTP", "HTTPS"];
    let scheme = text(request, "scheme");
    if !scheme.is_empty() && !schemes.contains(&scheme) {
        causes.push(field::not_supported(&field::child(at, "scheme"), &scheme.into(), &schemes));
    }
    for header in items(&request["httpHeaders"]) {
        let name = text(header, "name");
        if !is_header(name) {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
                          validation is '[-A-Za-z0-9]+')";
            causes.push(field::invalid(&field::child(at, "httpHeaders"), &name.into(), detail));
        }
    }
}
