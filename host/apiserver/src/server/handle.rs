use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::{State, debug};
use crate::access::{Question, User};
use crate::discovery;
use crate::openapi;
use crate::request::{ObjectPath, Request, Target};
use crate::rest::dispatch;
use crate::rest::respond::{self, Answer};
use crate::status::Status;

/// Answers a request.
pub(super) async fn handle(state: &Arc<State>, request: &Request) -> Answer {
    let answered = match &request.target {
        Target::Object(path) => object(state, path, request).await,
        _ => beside(state, request),
    };
    answered.unwrap_or_else(|status| respond::failure(&status))
}

async fn object(state: &Arc<State>, path: &ObjectPath, request: &Request) -> Result<Answer, Status> {
    let registry = state.registry();
    let endpoint = registry.endpoint(&path.group, &path.version, &path.plural);
    let verb = request.verb(path);
    if let (Some(_), Ok(verb)) = (endpoint, &verb) {
        state.log.record(*verb, path);
    }
    // Who may not ask is not told what there is.
    let user = match &verb {
        Ok(verb) => admit(state, request, || Question::of(path, *verb, request))?,
        Err(_) => None,
    };
    let endpoint = endpoint.ok_or_else(Status::no_such_resource)?;
    let verb = verb?;
    let instead = state.faults.meet(verb, path).await?;
    let answer = dispatch::resource(state, endpoint, path, verb, request, user.as_ref());
    instead.map_or(answer, Err)
}

/// Answers a request for what is no resource.
fn beside(state: &Arc<State>, request: &Request) -> Result<Answer, Status> {
    admit(state, request, || Question::path(request.method.as_str().to_lowercase(), request.uri.path()))?;
    match &request.target {
        Target::Other(path) => other(state, path, request),
        _ => discovery::answer(&state.registry(), request),
    }
}

/// Who asks, if they may; none where everything is allowed, and nobody needs to know.
fn admit<'a>(
    state: &State,
    request: &'a Request,
    question: impl FnOnce() -> Question<'a>,
) -> Result<Option<Arc<User>>, Status> {
    if !state.access.is_enforced() {
        return Ok(None);
    }
    let user = state.access.user_of(request)?;
    state.access.require(&user, &question())?;
    Ok(Some(user))
}

fn other(state: &Arc<State>, path: &str, request: &Request) -> Result<Answer, Status> {
    match path {
        "" => Ok(respond::json_value(StatusCode::OK, &discovery::paths(&state.registry()))),
        "/version" => Ok(respond::json_value(StatusCode::OK, &version())),
        "/healthz" | "/readyz" | "/livez" => {
            let ok = super::ResponseBody::full(&b"ok"[..]);
            Ok(respond::with_body(StatusCode::OK, "text/plain; charset=utf-8", ok))
        }
        _ if path.starts_with("/debug/") => debug::answer(state, path, request),
        _ if path.starts_with("/openapi/") => {
            openapi::answer::answer(&state.documents, &state.registry(), path, request)
        }
        _ => Err(Status::no_such_resource()),
    }
}

/// `/version`: the Kubernetes release whose behaviour is followed.
fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "32", "gitVersion": concat!("v1.32.0+pilothouse-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": concat!("linux/", "amd64"),
    })
}
