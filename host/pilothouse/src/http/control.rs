//! `/api/plugins/NAME/…`: a plugin's pending keys, and the requests that change what a running plugin does.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use pilothouse_controller::ControlError;
use serde::Deserialize;
use serde_json::json;

use super::{AppState, peer};

/// The number of keys in a response without `limit`.
const DEFAULT_KEYS: usize = 500;
/// The maximum number of keys in a response.
const MAX_KEYS: usize = 10_000;

pub(super) fn routes() -> Router<AppState> {
    let changing = Router::new()
        .route("/api/plugins/{name}/requeue", post(requeue))
        .route("/api/plugins/{name}/pause", post(pause))
        .route("/api/plugins/{name}/resume", post(resume))
        .route("/api/plugins/{name}/rollback", post(rollback))
        .route("/api/plugins/{name}/promote", post(promote))
        .route_layer(from_fn_with_state(Arc::<peer::Peers>::default(), peer::require_own_user));
    Router::new().route("/api/plugins/{name}/keys", get(keys)).merge(changing)
}

#[derive(Deserialize)]
struct KeysQuery {
    limit: Option<usize>,
}

async fn keys(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(query): Query<KeysQuery>,
) -> Response {
    let limit = query.limit.unwrap_or(DEFAULT_KEYS).min(MAX_KEYS);
    respond(state.host.keys(&name, limit), |keys| Json(keys).into_response())
}

#[derive(Deserialize)]
struct RequeueQuery {
    key: String,
    watch: Option<String>,
}

async fn requeue(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(query): Query<RequeueQuery>,
) -> Response {
    let queued = state.host.requeue(&name, query.watch.as_deref(), &query.key);
    respond(queued, |watch| Json(json!({"watch": &*watch, "key": query.key})).into_response())
}

async fn pause(State(state): State<AppState>, Path(name): Path<String>) -> Response {
    respond(state.host.set_paused(&name, true), |()| Json(json!({"paused": true})).into_response())
}

async fn resume(State(state): State<AppState>, Path(name): Path<String>) -> Response {
    respond(state.host.set_paused(&name, false), |()| Json(json!({"paused": false})).into_response())
}

#[derive(Deserialize)]
struct RollbackQuery {
    digest: Option<String>,
}

async fn rollback(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(query): Query<RollbackQuery>,
) -> Response {
    respond(state.host.roll_back(&name, query.digest.as_deref()), chosen)
}

async fn promote(State(state): State<AppState>, Path(name): Path<String>) -> Response {
    respond(state.host.promote(&name), chosen)
}

/// The version that is to run.
fn chosen((digest, version): (String, String)) -> Response {
    Json(json!({"digest": digest, "version": version})).into_response()
}

fn respond<T>(result: Result<T, ControlError>, success: impl FnOnce(T) -> Response) -> Response {
    let error = match result {
        Ok(value) => return success(value),
        Err(error) => error,
    };
    (status(&error), format!("{error}\n")).into_response()
}

/// Returns the HTTP status of an error.
pub(super) fn status(error: &ControlError) -> StatusCode {
    match error {
        ControlError::UnknownPlugin { .. }
        | ControlError::UnknownKey { .. }
        | ControlError::UnknownVersion { .. } => StatusCode::NOT_FOUND,
        ControlError::NotRunning { .. }
        | ControlError::NoOlderVersion { .. }
        | ControlError::NoCanary { .. }
        | ControlError::RunsAlready { .. } => StatusCode::CONFLICT,
        ControlError::Watch { .. } | ControlError::Key { .. } => StatusCode::BAD_REQUEST,
    }
}
