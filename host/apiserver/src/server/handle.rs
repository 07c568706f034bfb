//! Routes a request to the resources, discovery, OpenAPI or debugging endpoints.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::json;

use super::debug;
use super::faults::{self, AfterFault};
use super::health;
use super::inner::ServerInner;
use crate::access::Attributes;
use crate::admission::AuditAnnotations;
use crate::discovery;
use crate::openapi;
use crate::registry::{Endpoint, Registry};
use crate::request::{Encoding, ObjectPath, Offer, Request, Target, Verb, accept};
use crate::respond::{self, ApiResponse};
use crate::rest::dispatch;
use crate::state::State;
use crate::status::Status;
use crate::user::User;

/// Answers a request.
pub(super) async fn handle(server: &ServerInner, request: &Request) -> ApiResponse {
    let event = server.audit.as_ref().map(|audit| (audit, audit.begin(&server.state, request)));
    let answer = match &request.target {
        Target::Object(path) => resource(server, path, request).await,
        _ => non_resource(server, request).await,
    };
    let mut answer = answer.unwrap_or_else(|status| respond::failure(&status));
    let annotations: Option<AuditAnnotations> = answer.extensions_mut().remove();
    let encoding = encoding(server, request);
    let answer = respond::encoding::from_json(answer, encoding).await;
    let answer = answer.unwrap_or_else(|status| respond::failure(&status));
    if let Some((audit, mut event)) = event {
        event.annotate(annotations.unwrap_or_default());
        audit.append(event, answer.status(), server.state.clock.now());
    }
    answer
}

/// Returns the encoding of the response: the one that the client prefers, or JSON if it accepts none.
fn encoding(server: &ServerInner, request: &Request) -> Encoding {
    let accepted = request.header("accept");
    let protobuf = match &request.target {
        Target::Object(path) if accepted.contains("protobuf") => {
            let registry = server.state.registry();
            let endpoint = registry.endpoint(&path.group, &path.version, &path.plural);
            endpoint.is_some_and(|endpoint| endpoint.has_protobuf())
        }
        _ => false,
    };
    // An error of a watch is one document.
    let offer = Offer { protobuf, watch: true };
    accept::negotiate(accepted, offer).map_or(Encoding::Json, |(_, encoding)| encoding)
}

async fn resource(server: &ServerInner, path: &ObjectPath, request: &Request) -> Result<ApiResponse, Status> {
    let state = &*server.state;
    let registry = state.registry();
    let endpoint = registry.endpoint(&path.group, &path.version, &path.plural);
    let verb = request.verb(path);
    if let (Some(_), Ok(verb)) = (endpoint, &verb) {
        server.log.record(*verb, path);
    }
    // Authorization comes before the 404, so that a user without rights does not learn which resources exist.
    let user = match &verb {
        Ok(verb) => authorize(state, request, || Attributes::for_request(path, *verb, request))?,
        Err(_) => None,
    };
    let Some(endpoint) = endpoint else {
        return if registry.groups().contains_key(&path.group) {
            Err(Status::no_such_resource())
        } else {
            Ok(respond::page_not_found())
        };
    };
    let verb = verb?;
    if verb == Verb::Watch && encoding(server, request) == Encoding::Yaml {
        // As in Kubernetes, YAML has no framing of events.
        return Err(Status::not_acceptable(&[
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ]));
    }
    let timer = server.metrics.begin(endpoint, verb, path);
    let answer = with_faults(server, (endpoint, path, verb), request, user.as_ref()).await;
    server.metrics.end(timer, answer)
}

/// Executes a request, unless an injected fault prevents that.
async fn with_faults(
    server: &ServerInner,
    (endpoint, path, verb): (&Arc<Endpoint>, &ObjectPath, Verb),
    request: &Request,
    user: Option<&Arc<User>>,
) -> Result<ApiResponse, Status> {
    let is_write = !matches!(verb, Verb::Get | Verb::List | Verb::Watch);
    if is_write {
        server.check_data()?;
    }
    let fault = server.faults.apply(verb, path, &request.shutdown).await?;
    let stale;
    let request = match &fault {
        Some(AfterFault::ListAt(revision)) => {
            stale = request.at_revision(*revision);
            &stale
        }
        _ => request,
    };
    let answer = dispatch::resource(&server.state, endpoint, path, verb, request, user).await;
    if is_write {
        // Whatever the answer says, failures included, is true after a crash, too.
        server.flush().await?;
    }
    match fault {
        Some(AfterFault::Respond(status)) => Err(status),
        Some(AfterFault::Hang) => Err(faults::hang(&request.shutdown).await),
        Some(AfterFault::ListAt(_)) | None => answer,
    }
}

async fn non_resource(server: &ServerInner, request: &Request) -> Result<ApiResponse, Status> {
    let state = &*server.state;
    authorize(state, request, || {
        Attributes::non_resource(request.method.as_str().to_lowercase(), request.uri.path())
    })?;
    match &request.target {
        Target::Other(path) if path.starts_with("/debug/") => debug::answer(server, path, request).await,
        Target::Other(path) => other(server, path, request),
        _ => discovery::handle(&state.registry(), request),
    }
}

/// Returns the effective user of an authorized request, or `None` where all requests are allowed and nobody needs to
/// know the user.
fn authorize<'a>(
    state: &State,
    request: &'a Request,
    attributes: impl FnOnce() -> Attributes<'a>,
) -> Result<Option<Arc<User>>, Status> {
    if !state.access.is_enforced() {
        return Ok(None);
    }
    let user = state.access.effective_user(request)?;
    state.access.authorize(&user, &attributes())?;
    Ok(Some(user))
}

fn other(server: &ServerInner, path: &str, request: &Request) -> Result<ApiResponse, Status> {
    let state = &*server.state;
    if let Some(answer) = health::answer(state, path, request) {
        return answer;
    }
    match path {
        "" => Ok(respond::json_value(StatusCode::OK, &discovery::root_paths(&state.registry()))),
        "/version" if request.method != Method::GET => Err(Status::method_not_allowed()),
        "/version" => Ok(respond::json_value(StatusCode::OK, &version(server.kubernetes_minor))),
        "/metrics" => metrics(server, request),
        _ if path.starts_with("/openapi/") => {
            openapi::handler::handle(&server.documents, &state.registry(), path, request)
        }
        _ if is_below_group(&state.registry(), path) => Err(Status::no_such_resource()),
        _ => Ok(respond::page_not_found()),
    }
}

/// Whether a path is below that of a served group, whose handler answers for unknown resources.
fn is_below_group(registry: &Registry, path: &str) -> bool {
    let mut segments = path.trim_start_matches('/').split('/');
    match segments.next() {
        Some("api") => true,
        Some("apis") => segments.next().is_some_and(|group| registry.groups().contains_key(group)),
        _ => false,
    }
}

fn metrics(server: &ServerInner, request: &Request) -> Result<ApiResponse, Status> {
    if request.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    server.metrics.answer(&server.state)
}

/// Returns the answer to `/version`: the Kubernetes release whose behaviour the server follows.
fn version(minor: u16) -> serde_json::Value {
    json!({
        "major": "1", "minor": minor.to_string(),
        "gitVersion": format!("v1.{minor}.0+pilothouse-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": concat!("linux/", "amd64"),
    })
}
