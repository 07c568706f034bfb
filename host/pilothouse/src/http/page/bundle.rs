//! The pages of a support bundle: the same as those of a host, as far as the bundle has their content.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::overview::OverviewQuery;
use super::plugin::PluginContent;
use super::{KeyQuery, assets, html, key, overview, plugin, question};
use crate::bundle::BundleContents;

/// The routes of the pages of a bundle.
pub(in crate::http) fn bundle_routes(contents: BundleContents) -> Router {
    Router::new()
        .route("/", get(overview_page))
        .route("/plugins/{name}", get(plugin_page))
        .route("/plugins/{name}/keys/{*key}", get(key_page))
        .with_state(Arc::new(contents))
        .merge(assets())
}

async fn overview_page(
    State(contents): State<Arc<BundleContents>>,
    Query(query): Query<OverviewQuery>,
) -> Response {
    match question(&query) {
        Some(response) => response,
        None => html(StatusCode::OK, overview::render(&contents.plugins, &query, false)),
    }
}

async fn plugin_page(State(contents): State<Arc<BundleContents>>, Path(name): Path<String>) -> Response {
    let Some(status) = contents.plugins.iter().find(|status| status.name == name) else {
        let problem = "the bundle has no such plugin; the overview lists those that it has";
        return html(StatusCode::NOT_FOUND, key::render_problem(&name, &name, problem));
    };
    let log = contents.log.get(&name).map(Vec::as_slice).unwrap_or_default();
    let log = &log[log.len().saturating_sub(plugin::MAX_LINES)..];
    let mut keys = contents.keys.get(&name).cloned();
    if let Some(keys) = &mut keys {
        keys.keys.truncate(plugin::MAX_KEYS);
    }
    let content = PluginContent { status, details: None, keys: keys.as_ref(), log, is_live: false };
    html(StatusCode::OK, plugin::render(content))
}

async fn key_page(
    State(contents): State<Arc<BundleContents>>,
    Path((plugin, key)): Path<(String, String)>,
    Query(query): Query<KeyQuery>,
) -> Response {
    let explained = contents.explanations.iter().find(|explained| {
        let is_watch = query.watch.is_empty() || query.watch == explained.watch;
        explained.plugin == plugin && explained.key == key && is_watch
    });
    match explained {
        Some(explained) => html(StatusCode::OK, key::render(explained, false)),
        None => {
            let problem = "the bundle does not explain this key; it explains keys that failed or were processed for a minute";
            html(StatusCode::NOT_FOUND, key::render_problem(&plugin, &key, problem))
        }
    }
}
