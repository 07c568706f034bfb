//! `/debug/requests` and `/debug/faults`: what tests in other processes see and break.

use std::time::Duration;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::{Matcher, State};
use crate::request::{Request, Verb};
use crate::rest::respond::{self, Answer};
use crate::status::Status;

/// The body of a POST to `/debug/faults`. What it matches may be left out; what it does is one of the last members.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FaultRequest {
    verb: Option<String>,
    group: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    /// For how many requests; 1 if it is left out.
    count: Option<u32>,
    /// Fail with this HTTP status code.
    code: Option<u16>,
    #[serde(default)]
    retry_after_seconds: u32,
    /// Carry the request out before it fails.
    #[serde(default)]
    afterwards: bool,
    /// Delay by so many milliseconds.
    delay_millis: Option<u64>,
    /// End the present watches of the resource.
    #[serde(default)]
    cut_watches: bool,
    /// Forget the history of the resource.
    #[serde(default)]
    compact: bool,
}

pub(super) fn answer(state: &State, path: &str, request: &Request) -> Result<Answer, Status> {
    match (path, &request.method) {
        ("/debug/requests", &Method::GET) => {
            Ok(respond::json_value(StatusCode::OK, &json!({"counts": state.log.counts()})))
        }
        ("/debug/requests", &Method::DELETE) => {
            state.log.reset();
            Ok(respond::json_value(StatusCode::OK, &json!({})))
        }
        ("/debug/faults", _) if !state.faults_over_http => Err(Status::no_such_resource()),
        ("/debug/faults", &Method::POST) => {
            arm(state, request)?;
            Ok(respond::json_value(StatusCode::OK, &json!({})))
        }
        ("/debug/faults", &Method::DELETE) => {
            state.faults.clear();
            Ok(respond::json_value(StatusCode::OK, &json!({})))
        }
        ("/debug/requests" | "/debug/faults", method) => Err(Status::method_not_allowed(method.as_str())),
        _ => Err(Status::no_such_resource()),
    }
}

fn arm(state: &State, request: &Request) -> Result<(), Status> {
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
        state.storage.table(&group, &plural).compact();
    }
    if fault.cut_watches {
        state.storage.table(&group, &plural).cut_watches(None);
    }
    let count = fault.count.unwrap_or(1);
    match fault.code {
        Some(code) if fault.afterwards => {
            let status = Status::with_code(code, "injected fault", fault.retry_after_seconds);
            state.faults.fail_afterwards(matcher.clone(), count, status);
        }
        Some(code) => state.faults.fail_with_code(matcher.clone(), count, code, fault.retry_after_seconds),
        None => {}
    }
    if let Some(millis) = fault.delay_millis {
        state.faults.delay(matcher, Some(count), Duration::from_millis(millis));
    }
    Ok(())
}
