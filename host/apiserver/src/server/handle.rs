use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::{State, debug};
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
        Target::CoreVersions | Target::Groups | Target::Group(_) | Target::GroupVersion(..) => {
            discovery::answer(&state.registry(), request)
        }
        Target::Other(path) => other(state, path, request),
    };
    answered.unwrap_or_else(|status| respond::failure(&status))
}

async fn object(state: &Arc<State>, path: &ObjectPath, request: &Request) -> Result<Answer, Status> {
    let registry = state.registry();
    let endpoint =
        registry.endpoint(&path.group, &path.version, &path.plural).ok_or_else(Status::no_such_resource)?;
    let verb = request.verb(path)?;
    state.log.record(verb, path);
    state.faults.meet(verb, path).await?;
    dispatch::resource(state, endpoint, path, verb, request)
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
