//! What the host serves on `--listen`. The paths are public, and all of them read only.

mod page;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use pilothouse_apiserver::listen::{self, Listening, RequestGuard};
use pilothouse_controller::{PluginHost, PluginLogs, PluginName, PluginStatus};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Surface {
    host: PluginHost,
    registry: Arc<Registry>,
}

impl Surface {
    pub(crate) fn new(host: PluginHost, registry: Registry) -> Self {
        Self { host, registry: Arc::new(registry) }
    }
}

/// Connections that may be open: browsers, scrapes, probes, and who follows the logs.
const CONNECTIONS: usize = 256;

/// Serves until shutdown.
pub(crate) async fn serve(
    listener: TcpListener,
    surface: Surface,
    guard: RequestGuard,
    shutdown: CancellationToken,
) {
    let listening = Listening { listener, tls: None, connections: CONNECTIONS };
    listen::serve(listening, routes(surface, guard), shutdown).await;
}

fn routes(surface: Surface, guard: RequestGuard) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/plugins", get(plugins))
        .route("/api/logs", get(logs))
        .route("/debug/informers", get(informers))
        .with_state(surface)
        .layer(from_fn_with_state(Arc::new(guard), protect))
}

/// What keeps browsers from showing an answer to, or inside, pages of other sites.
const PROTECTION: [(HeaderName, HeaderValue); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Answers requests that a page of another site may have caused with 403.
async fn protect(State(guard): State<Arc<RequestGuard>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = match guard.check(&parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refusal) => (StatusCode::FORBIDDEN, format!("{refusal}\n")).into_response(),
    };
    response.headers_mut().extend(PROTECTION);
    response
}

async fn page(State(surface): State<Surface>) -> Html<String> {
    Html(page::render(&surface.host.status()))
}

async fn ready(State(surface): State<Surface>) -> Response {
    if surface.host.is_ready() {
        return "ok".into_response();
    }
    let on_their_way: Vec<_> = surface
        .host
        .status()
        .iter()
        .map(|plugin: &PluginStatus| format!("{}: {}", plugin.name, plugin.state.as_str()))
        .collect();
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", on_their_way.join(", "))).into_response()
}

async fn metrics(State(surface): State<Surface>) -> Response {
    surface.host.observe_queues();
    let mut text = String::new();
    if let Err(error) = encode(&mut text, &surface.registry) {
        return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
    }
    text.truncate(text.trim_end_matches("# EOF\n").len());
    surface.host.guest_metrics().encode(&mut text);
    text.push_str("# EOF\n");
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

async fn plugins(State(surface): State<Surface>) -> Response {
    axum::Json(json!({"plugins": surface.host.status()})).into_response()
}

/// For a bug report: the state of every informer, without any object's content.
async fn informers(State(surface): State<Surface>) -> Response {
    axum::Json(json!({"informers": surface.host.informers()})).into_response()
}

#[derive(Deserialize)]
struct LogsQuery {
    plugin: Option<String>,
    #[serde(default)]
    follow: bool,
}

async fn logs(State(surface): State<Surface>, Query(query): Query<LogsQuery>) -> Response {
    let plugin =
        match query.plugin.as_deref().map(|name| PluginName::of_file(Path::new(&format!("{name}.wasm")))) {
            None => None,
            Some(Ok(name)) => Some(name),
            Some(Err(error)) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
        };
    let known = |name: &PluginName| surface.host.status().iter().any(|status| status.name == name.as_str());
    if let Some(name) = plugin.as_ref().filter(|name| !known(name)) {
        let text = format!("there is no plugin {:?}; see /api/plugins for those there are\n", name.as_str());
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    let lines = log_lines(surface.host.logs().clone(), plugin, query.follow);
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

/// The kept lines as NDJSON; with `follow`, then each new one, without end.
fn log_lines(
    logs: PluginLogs,
    plugin: Option<PluginName>,
    follow: bool,
) -> impl futures::Stream<Item = Result<String, Infallible>> {
    let first = (logs, plugin, 0, false);
    futures::stream::unfold(first, move |(logs, plugin, seen, told)| async move {
        if told && !follow {
            return None;
        }
        let mut seen = seen;
        loop {
            if told {
                logs.wait_after(seen).await;
            }
            let all_after = logs.after(seen, None).last().map_or(seen, |line| line.sequence);
            let lines = logs.after(seen, plugin.as_ref());
            let last = lines.last().map_or(all_after, |line| line.sequence.max(all_after));
            let text: String = lines
                .iter()
                .filter_map(|line| serde_json::to_string(line).ok())
                .map(|line| line + "\n")
                .collect();
            seen = last;
            if !text.is_empty() || !told {
                return Some((Ok(text), (logs, plugin, seen, true)));
            }
        }
    })
}
