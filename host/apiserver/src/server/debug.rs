//! `/debug/requests` and `/debug/faults`: request counts and fault injection for tests in other processes.

use std::time::Duration;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::Matcher;
use super::inner::ServerInner;
use crate::request::{Request, Verb};
use crate::respond::{self, Answer};
use crate::status::Status;

/// The body of a POST to `/debug/faults`. The first five fields select requests and are optional; the others say what
/// happens to these requests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FaultRequest {
    verb: Option<String>,
    group: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    /// The number of requests that the fault applies to; 1 by default.
    count: Option<u32>,
    /// Fails the request with this HTTP status code.
    code: Option<u16>,
    #[serde(default)]
    retry_after_seconds: u32,
    /// Executes the request before it fails.
    #[serde(default)]
    afterwards: bool,
    /// Delays the request by this number of milliseconds.
    delay_millis: Option<u64>,
    /// Ends the open watches of the resource.
    #[serde(default)]
    cut_watches: bool,
    /// Discards the history of the resource.
    #[serde(default)]
    compact: bool,
}

pub(super) fn answer(server: &ServerInner, path: &str, request: &Request) -> Result<Answer, Status> {
    match (path, &request.method) {
        ("/debug/requests", &Method::GET) => {
            Ok(respond::json_value(StatusCode::OK, &json!({"counts": server.log.counts()})))
        }
        ("/debug/requests", &Method::DELETE) => {
            server.log.reset();
            Ok(respond::json_value(StatusCode::OK, &json!({})))
        }
        ("/debug/faults", _) if !server.faults_over_http => Err(Status::no_such_resource()),
        ("/debug/faults", &Method::POST) => {
            inject(server, request)?;
            Ok(respond::json_value(StatusCode::OK, &json!({})))
        }
        ("/debug/faults", &Method::DELETE) => {
            server.faults.clear();
            Ok(respond::json_value(StatusCode::OK, &json!({})))
        }
        ("/debug/requests" | "/debug/faults", method) => Err(Status::method_not_allowed(method.as_str())),
        _ => Err(Status::no_such_resource()),
    }
}

fn inject(server: &ServerInner, request: &Request) -> Result<(), Status> {
    let fault: FaultRequest = serde_json::from_slice(&request.body)
        .map_err(|error| Status::bad_request(format!("the fault cannot be read: {error}")))?;
    let verb = match fault.verb.as_deref() {
        None => None,
        Some(name) => Some(Verb::parse(name).ok_or_else(|| {
            Status::bad_request(format!(
                "verb {name:?} is none of get, list, watch, create, update, patch, delete, deletecollection"
            ))
        })?),
    };
    let plural = fault.resource.clone().unwrap_or_default();
    let group = fault.group.clone().unwrap_or_default();
    let matcher = Matcher {
        verb,
        plural: fault.resource,
        group: fault.group,
        namespace: fault.namespace,
        name: fault.name,
    };
    if (fault.cut_watches || fault.compact) && plural.is_empty() {
        return Err(Status::bad_request("cutWatches and compact need a resource"));
    }
    if fault.compact {
        server.state.storage.table(&group, &plural).compact();
    }
    if fault.cut_watches {
        server.state.storage.table(&group, &plural).cut_watches(None);
    }
    let count = fault.count.unwrap_or(1);
    match fault.code {
        Some(code) if fault.afterwards => {
            let status = Status::with_code(code, "injected fault", fault.retry_after_seconds);
            server.faults.fail_afterwards(matcher.clone(), count, status);
        }
        Some(code) => server.faults.fail_with_code(matcher.clone(), count, code, fault.retry_after_seconds),
        None => {}
    }
    if let Some(millis) = fault.delay_millis {
        server.faults.delay(matcher, Some(count), Duration::from_millis(millis));
    }
    Ok(())
}
