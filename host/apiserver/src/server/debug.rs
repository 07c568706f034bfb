//! `/debug/`: request counts, fault injection and snapshots for tests in other processes.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::inner::ServerInner;
use super::{Matcher, snapshots};
use crate::request::{Request, Verb};
use crate::respond::{self, ApiResponse};
use crate::status::Status;
use crate::storage::Table;

/// The longest delay of a request.
const MAX_DELAY: Duration = Duration::from_secs(600);

/// The most requests that one fault applies to.
const MAX_COUNT: u32 = 1_000_000;

/// The longest text that selects requests, in bytes. No group, resource or name is longer.
const MAX_TEXT: usize = 512;

/// The body of a POST to `/debug/faults`. The first five fields select requests and are optional. Of the others, those down to `staleLists`
/// say what happens to these requests, and the rest changes the open watches and the history of a resource at once.
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
    /// Executes the request before it fails or hangs.
    #[serde(default)]
    afterwards: bool,
    /// Delays the request by this number of milliseconds.
    delay_millis: Option<u64>,
    /// Never answers the request.
    #[serde(default)]
    hang: bool,
    /// Answers lists with the state at the time of the injection.
    #[serde(default)]
    stale_lists: bool,
    /// Ends the open watches of the resource.
    #[serde(default)]
    cut_watches: bool,
    /// Ends the open watches of the resource with an ERROR event of this code.
    fail_watches: Option<u16>,
    /// Stops or continues the open and future watches of the resource, which send nothing meanwhile.
    freeze_watches: Option<bool>,
    /// Discards the history of the resource.
    #[serde(default)]
    compact: bool,
}

pub(super) async fn answer(
    server: &ServerInner,
    path: &str,
    request: &Request,
) -> Result<ApiResponse, Status> {
    let done = || Ok(respond::json_value(StatusCode::OK, &json!({})));
    if path == "/debug/snapshot" || path.starts_with("/debug/snapshot/") {
        return snapshots::answer(server, path, request).await;
    }
    match (path, &request.method) {
        ("/debug/requests", &Method::GET) => {
            Ok(respond::json_value(StatusCode::OK, &json!({"counts": server.log.counts()})))
        }
        ("/debug/requests", &Method::DELETE) => {
            server.log.reset();
            done()
        }
        ("/debug/faults", _) if !server.faults_over_http => {
            Err(Status::not_enabled("/debug/faults", "--enable-faults"))
        }
        ("/debug/faults", &Method::GET) => Ok(respond::json_value(
            StatusCode::OK,
            &json!({"faults": server.faults.to_value(), "frozenWatches": frozen_watches(server)}),
        )),
        ("/debug/faults", &Method::POST) => {
            let warnings = inject(server, request)?;
            Ok(respond::json_value(StatusCode::OK, &json!({"warnings": warnings})))
        }
        ("/debug/faults", &Method::DELETE) => {
            server.faults.clear();
            for table in server.state.storage.tables() {
                table.freeze_watches(false);
            }
            done()
        }
        ("/debug/requests" | "/debug/faults", _) => Err(Status::method_not_allowed()),
        _ => Err(Status::no_such_resource()),
    }
}

/// Returns the resources whose watches are frozen, in the order of their names.
fn frozen_watches(server: &ServerInner) -> Vec<Value> {
    let tables = server.state.storage.tables();
    let mut names: Vec<_> =
        tables.iter().filter(|table| table.has_frozen_watches()).map(|table| table.name()).collect();
    names.sort_unstable();
    names.iter().map(|(group, plural)| json!({"group": group, "resource": plural})).collect()
}

/// Injects the fault of a request. Returns what is probably a mistake in it.
fn inject(server: &ServerInner, request: &Request) -> Result<Vec<String>, Status> {
    let unreadable = |error: serde_json::Error| {
        let problem = pilothouse_yaml::describe_message(&error.to_string());
        Status::bad_request(format!("the fault cannot be read: {problem}"))
    };
    let body: Value = serde_json::from_slice(&request.body).map_err(unreadable)?;
    // An array would be read member by member.
    if !body.is_object() {
        return Err(Status::bad_request("the fault is not a JSON object".to_owned()));
    }
    // From the text, because the tree has lost members that occur twice.
    let fault: FaultRequest = serde_json::from_slice(&request.body).map_err(unreadable)?;
    fault.validate()?;
    if server.faults.is_full() {
        let problem = "too many faults are active; remove them with DELETE /debug/faults";
        return Err(Status::bad_request(problem));
    }
    let matcher = fault.matcher()?;
    fault.change_watches(server)?;
    let count = fault.count.unwrap_or(1);
    if let Some(code) = fault.code {
        let status = Status::with_code(code, "injected fault", fault.retry_after_seconds);
        if fault.afterwards {
            server.faults.fail_afterwards(matcher, count, status);
        } else {
            server.faults.fail(matcher, count, status);
        }
    } else if let Some(millis) = fault.delay_millis {
        server.faults.delay(matcher, Some(count), Duration::from_millis(millis));
    } else if fault.hang {
        server.faults.hang(matcher, count, fault.afterwards);
    } else if fault.stale_lists {
        server.faults.list_at(matcher, count, server.state.storage.revision());
    }
    Ok(fault.unserved(server).into_iter().collect())
}

impl FaultRequest {
    /// Errors if the members contradict each other or are out of range.
    fn validate(&self) -> Result<(), Status> {
        let refuse = |problem: &str| Err(Status::bad_request(format!("the fault is invalid: {problem}")));
        let texts = [&self.verb, &self.group, &self.resource, &self.namespace, &self.name];
        if texts.into_iter().flatten().any(|text| text.len() > MAX_TEXT) {
            return refuse("verb, group, resource, namespace and name must have at most 512 bytes");
        }
        let is_no_error = |code: u16| !(400..600).contains(&code);
        let effects = [self.code.is_some(), self.delay_millis.is_some(), self.hang, self.stale_lists];
        let effects = effects.iter().filter(|is_set| **is_set).count();
        if effects > 1 {
            return refuse("only one of code, delayMillis, hang and staleLists is allowed; send two faults");
        }
        let changes_watches =
            self.cut_watches || self.fail_watches.is_some() || self.freeze_watches.is_some() || self.compact;
        if effects == 0 && !changes_watches {
            return refuse(
                "one of code, delayMillis, hang, staleLists, cutWatches, failWatches, freezeWatches and compact is required",
            );
        }
        if changes_watches && self.resource.as_deref().is_none_or(str::is_empty) {
            return refuse("cutWatches, failWatches, freezeWatches and compact need a resource");
        }
        if changes_watches && effects > 0 {
            return refuse(
                "cutWatches, failWatches, freezeWatches and compact take effect at once, so they cannot be combined with code, delayMillis, \
                 hang and staleLists; send two faults",
            );
        }
        let selects = [&self.verb, &self.namespace, &self.name].into_iter().any(Option::is_some);
        if changes_watches && (selects || self.count.is_some()) {
            return refuse(
                "cutWatches, failWatches, freezeWatches and compact change all watches of the resource; remove verb, namespace, name and count",
            );
        }
        if self.cut_watches && self.fail_watches.is_some() {
            return refuse("only one of cutWatches and failWatches is allowed");
        }
        if self.code.is_some_and(is_no_error) || self.fail_watches.is_some_and(is_no_error) {
            return refuse("code and failWatches must be from 400 to 599");
        }
        if self.afterwards && self.code.is_none() && !self.hang {
            return refuse("afterwards needs code or hang");
        }
        if self.retry_after_seconds > 0 && self.code.is_none() {
            return refuse("retryAfterSeconds needs code");
        }
        if self.delay_millis.is_some_and(|millis| Duration::from_millis(millis) > MAX_DELAY) {
            return refuse("delayMillis must be at most 600000");
        }
        if self.count.is_some_and(|count| count == 0 || count > MAX_COUNT) {
            return refuse("count must be from 1 to 1000000");
        }
        if self.stale_lists && self.verb.as_deref().is_some_and(|verb| verb != "list") {
            return refuse("staleLists applies to the verb list only");
        }
        Ok(())
    }

    /// Returns a warning if no request can match before another resource is served.
    fn unserved(&self, server: &ServerInner) -> Option<String> {
        let wanted = self.resource.as_deref()?;
        let registry = server.state.registry();
        let is_group = |group: &str| self.group.as_deref().is_none_or(|wanted| wanted == group);
        let served: Vec<_> = registry
            .endpoints()
            .filter(|endpoint| is_group(&endpoint.group))
            .map(|endpoint| endpoint.resource.names.plural.as_str())
            .collect();
        if served.contains(&wanted) {
            return None;
        }
        let meant = pilothouse_yaml::suggestion(wanted, served)
            .map_or_else(String::new, |close| format!("; did you mean {close}?"));
        let group = self.group.as_ref().map_or_else(String::new, |group| format!(" in the group {group:?}"));
        Some(format!("no resource {wanted:?} is served{group}, so the fault applies to nothing yet{meant}"))
    }

    fn matcher(&self) -> Result<Matcher, Status> {
        let parse = |name: &str| {
            Verb::parse(name).ok_or_else(|| {
                Status::bad_request(format!(
                    "verb {name:?} is none of get, list, watch, create, update, patch, delete, deletecollection"
                ))
            })
        };
        Ok(Matcher {
            verb: self.verb.as_deref().map(parse).transpose()?,
            plural: self.resource.clone(),
            group: self.group.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        })
    }

    /// Changes the watches and the history of the resource.
    fn change_watches(&self, server: &ServerInner) -> Result<(), Status> {
        if !self.cut_watches && self.fail_watches.is_none() && self.freeze_watches.is_none() && !self.compact
        {
            return Ok(());
        }
        let table = self.table(server)?;
        if self.compact {
            table.compact();
        }
        if let Some(frozen) = self.freeze_watches {
            table.freeze_watches(frozen);
        }
        if self.cut_watches {
            table.cut_watches(None);
        }
        if let Some(code) = self.fail_watches {
            table.cut_watches(Some(Status::with_code(code, "injected fault", 0)));
        }
        Ok(())
    }

    fn table(&self, server: &ServerInner) -> Result<Arc<Table>, Status> {
        let (group, plural) = (self.group.as_deref().unwrap_or(""), self.resource.as_deref().unwrap_or(""));
        let registry = server.state.registry();
        let endpoint = registry
            .endpoints()
            .find(|endpoint| endpoint.group == group && endpoint.resource.names.plural == plural);
        endpoint.map(|endpoint| Arc::clone(&endpoint.resource.table)).ok_or_else(|| {
            Status::bad_request(format!("the resource {plural:?} of the group {group:?} is not served"))
        })
    }
}
