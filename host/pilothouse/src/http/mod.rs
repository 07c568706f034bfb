//! The HTTP server on `--listen`: health, metrics, status and logs, and requests of operators about single plugins. The paths are public
//! API. With `--auth kubernetes`, `authorization` asks the API server who may read. Those that change something are POST requests, which `peer` restricts to the user who runs the host.
//! `load` bounds what all readers take together.

pub(crate) mod authorization;
mod connection_table;
mod control;
mod explain;
mod fair_permits;
mod load;
mod logs;
mod page;
mod peer;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use pilothouse_controller::{LoadProgress, PluginHost, PluginState, PluginStatus};
use pilothouse_listen::{BoundListener, ConnectionLimits, RequestGuard};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::bundle::BundleContents;
use crate::startup::StartupSteps;
use crate::{host_facts, summary};
use authorization::{Authorizer, require_permission};
use load::{LIMITS, Load, keep_room_for_probes, limit_large_responses};
use page::LiveUpdates;

/// State shared by the handlers.
#[derive(Clone)]
pub(crate) struct AppState {
    host: PluginHost,
    registry: Arc<Registry>,
    startup: Arc<StartupSteps>,
    live: LiveUpdates,
    load: Arc<Load>,
}

impl AppState {
    pub(crate) fn new(host: PluginHost, registry: Registry, startup: Arc<StartupSteps>) -> Self {
        Self {
            host,
            registry: Arc::new(registry),
            startup,
            live: LiveUpdates::default(),
            load: Arc::default(),
        }
    }
}

/// The header that a POST request must have, with any value. Browsers ask the host before a page of another site may send it, and the host
/// refuses.
pub(crate) const CLIENT_HEADER: &str = "x-pilothouse-client";

/// Serves requests until `shutdown` is cancelled.
pub(crate) async fn serve(
    listener: TcpListener,
    state: AppState,
    guard: RequestGuard,
    authorizer: Option<Authorizer>,
    shutdown: CancellationToken,
) {
    let listening = BoundListener { listener, tls: None, limits: LIMITS, exposes_addresses: true };
    pilothouse_listen::serve(listening, routes(state, guard, authorizer), shutdown).await;
}

/// Serves the pages of a support bundle until `shutdown` is cancelled.
pub(crate) async fn serve_bundle(
    listener: TcpListener,
    contents: BundleContents,
    shutdown: CancellationToken,
) {
    let limits = ConnectionLimits { reserved: 0, ..LIMITS };
    let listening = BoundListener { listener, tls: None, limits, exposes_addresses: false };
    pilothouse_listen::serve(listening, routes_of_bundle(contents), shutdown).await;
}

fn routes_of_bundle(contents: BundleContents) -> Router {
    let guard = RequestGuard::new(false, &[]);
    page::bundle_routes(contents).fallback(not_found).layer(from_fn_with_state(Arc::new(guard), protect))
}

fn routes(state: AppState, guard: RequestGuard, authorizer: Option<Authorizer>) -> Router {
    let load = Arc::clone(&state.load);
    let routes: Router = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .route("/readyz/plugins", get(plugins_ready))
        .route("/metrics", get(metrics))
        .route("/api/plugins", get(plugins))
        .route("/api/explain", get(explain::explain))
        .route("/api/logs", get(logs::logs))
        .route("/debug/informers", get(informers))
        .route("/debug/host", get(async || axum::Json(host_facts::process())))
        .merge(control::routes())
        .merge(page::routes())
        .fallback(not_found)
        .with_state(state)
        .layer(from_fn_with_state(load, limit_large_responses));
    let routes = match authorizer {
        Some(authorizer) => routes.layer(from_fn_with_state(Arc::new(authorizer), require_permission)),
        None => routes,
    };
    let routes = routes.layer(from_fn(keep_room_for_probes));
    // Outermost, so that the requests of web pages are refused before anything else.
    routes.layer(from_fn_with_state(Arc::new(guard), protect))
}

/// What pages may load and do: style, script and icon are files of this host, and nothing in a page's text is one of them.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                                       form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Response headers that stop browsers from exposing responses to, or embedding them in, pages of other sites.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY)),
    // The URL of a page contains the names of a plugin and a key.
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Rejects with 403 any request that a page of another site may have triggered, and adds [`SECURITY_HEADERS`] to each response.
async fn protect(State(guard): State<Arc<RequestGuard>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = match guard.check(&parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refusal) => (StatusCode::FORBIDDEN, format!("{refusal}\n")).into_response(),
    };
    response.headers_mut().extend(SECURITY_HEADERS);
    response
}

/// Says that nothing is served at the path.
async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "nothing is served at this path; docs/cli.md lists the paths\n").into_response()
}

async fn ready(State(state): State<AppState>) -> Response {
    if state.host.is_ready() {
        return "ok".into_response();
    }
    let plugins = state.host.status();
    let progress = LoadProgress::of(&plugins);
    let plugin_states: Vec<_> = plugins
        .iter()
        .map(|plugin: &PluginStatus| format!("{}: {}", plugin.name, plugin.state.as_str()))
        .collect();
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {progress}: {}\n", plugin_states.join(", ")))
        .into_response()
}

/// Returns 200 if the host is ready, its start is finished and every plugin does its work, and otherwise 503 with a line for each step and
/// plugin of which that is not so.
async fn plugins_ready(State(state): State<AppState>) -> Response {
    let plugins = state.host.status();
    let mut problems = state.startup.unfinished(|name| plugins.iter().any(|plugin| plugin.name == name));
    problems.extend(unready(&plugins));
    if !state.host.is_ready() {
        problems.insert(0, "the host is not ready".to_owned());
    }
    if problems.is_empty() {
        return "ok".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, problems.join("\n") + "\n").into_response()
}

/// Returns a line for each plugin that does not do its work. A plugin that was removed or disabled has none to do.
fn unready(plugins: &[PluginStatus]) -> Vec<String> {
    let has_work =
        |plugin: &&PluginStatus| !matches!(plugin.state, PluginState::Draining | PluginState::Stopped);
    let line = |plugin: &PluginStatus| {
        let problems = summary::problems(plugin).join("; ");
        format!("{}: {}: {problems}", plugin.name, summary::state(plugin)).trim_end_matches(": ").to_owned()
    };
    plugins.iter().filter(has_work).filter(|plugin| !plugin.ready).map(line).collect()
}

async fn metrics(State(state): State<AppState>) -> Response {
    state.host.update_gauges();
    let mut text = String::new();
    if let Err(error) = encode(&mut text, &state.registry) {
        return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
    }
    text.truncate(text.trim_end_matches("# EOF\n").len());
    state.host.guest_metrics().encode(&mut text);
    text.push_str("# EOF\n");
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

async fn plugins(State(state): State<AppState>) -> Response {
    let plugins = state.host.status();
    axum::Json(json!({"loading": LoadProgress::of(&plugins), "plugins": plugins})).into_response()
}

/// Returns the state of every informer, for bug reports. Contains no object content.
async fn informers(State(state): State<AppState>) -> Response {
    axum::Json(json!({"informers": state.host.informers()})).into_response()
}
