//! The status page: an overview of the plugins, a page for each plugin, and a page for each key.
//!
//! A page is complete without scripts. With them, `live.js` fetches the page again after each event of the stream in [`live`], and replaces
//! what has changed. Style, script and icon come from this host, and the content security policy allows nothing else.

mod bundle;
mod key;
mod layout;
mod live;
mod order;
mod overview;
mod plugin;
mod plugin_shadow;
mod plugin_tables;
mod plugin_versions;

use std::path::Path as FilePath;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use pilothouse_controller::PluginName;
use serde::Deserialize;

use super::AppState;
use super::explain::ExplainQuery;
use crate::commands::percent_encoded;
pub(super) use bundle::bundle_routes;
use layout::{EVENTS_PATH, ICON_PATH, SCRIPT_PATH, STYLE_PATH};
pub(super) use live::LiveUpdates;
use overview::OverviewQuery;
use plugin::PluginContent;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");
const ICON: &str = include_str!("icon.svg");

/// The routes of the page.
pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/", get(overview))
        .route("/plugins/{name}", get(plugin))
        .route("/plugins/{name}/keys/{*key}", get(key))
        .route(EVENTS_PATH, get(live::events))
        .merge(assets())
}

/// The routes of the files that belong to the pages.
fn assets<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route(STYLE_PATH, get(async || asset("text/css; charset=utf-8", STYLE)))
        .route(SCRIPT_PATH, get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .route(ICON_PATH, get(async || asset("image/svg+xml", ICON)))
}

/// Returns a file that belongs to the page. Another version of the host may have another one under the same path.
fn asset(content_type: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}

/// Returns a page, which browsers do not keep: it contains names of objects.
fn html(status: StatusCode, page: String) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], Html(page)).into_response()
}

async fn overview(State(state): State<AppState>, Query(query): Query<OverviewQuery>) -> Response {
    match question(&query) {
        Some(response) => response,
        None => html(StatusCode::OK, overview::render(&state.host.status(), &query, true)),
    }
}

/// Returns a redirect to the page of a key or of a plugin, if the query has a question as the form of a plugin's page asks it.
fn question(query: &OverviewQuery) -> Option<Response> {
    if query.plugin.is_empty() {
        return None;
    }
    let path = match query.key.trim() {
        "" => layout::plugin_path(&query.plugin),
        key => layout::key_path(&query.plugin, query.watch.trim(), key),
    };
    Some(match path {
        Some(path) => Redirect::to(&path).into_response(),
        None => {
            let problem =
                "no object has such a key: write NAMESPACE/NAME, or NAME for a cluster-scoped object";
            html(StatusCode::BAD_REQUEST, key::render_problem(&query.plugin, &query.key, problem))
        }
    })
}

async fn plugin(State(state): State<AppState>, Path(name): Path<String>) -> Response {
    let plugins = state.host.status();
    let Some(status) = plugins.iter().find(|status| status.name == name) else {
        let problem = "this host has no such plugin; the overview lists those that it has";
        return html(StatusCode::NOT_FOUND, key::render_problem(&name, &name, problem));
    };
    // A file that cannot be a plugin has only a status.
    let details = state.host.details(&name).ok();
    let keys = state.host.keys(&name, plugin::MAX_KEYS).ok();
    let log = match PluginName::of_file(FilePath::new(&format!("{name}.wasm"))) {
        Ok(name) => state.host.logs().last(&name, plugin::MAX_LINES),
        Err(_) => Vec::new(),
    };
    let content =
        PluginContent { status, details: details.as_ref(), keys: keys.as_ref(), log: &log, is_live: true };
    html(StatusCode::OK, plugin::render(content))
}

#[derive(Deserialize)]
struct KeyQuery {
    #[serde(default)]
    watch: String,
}

async fn key(
    State(state): State<AppState>,
    Path((plugin, key)): Path<(String, String)>,
    Query(query): Query<KeyQuery>,
) -> Response {
    let question = ExplainQuery { plugin, key, watch: query.watch };
    match question.answer(&state.host).await {
        Ok(explained) => html(StatusCode::OK, key::render(&explained, true)),
        Err((status, problem)) => {
            html(status, key::render_problem(&question.plugin, &question.key, &problem))
        }
    }
}

/// Returns the path of the events after which a plugin's page, and those of its keys, are brought up to date.
fn events_path(plugin: &str) -> String {
    format!("{EVENTS_PATH}?plugin={}", percent_encoded(plugin))
}

/// Formats a duration for people.
fn duration(milliseconds: u64) -> String {
    let (seconds, tenths) = (milliseconds / 1000, milliseconds % 1000 / 100);
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{seconds}.{tenths} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_controller::PluginStatus;
    use serde_json::{Value, json};

    use super::*;

    /// Returns the status of a plugin that runs, with these members.
    pub(super) fn plugin(members: &Value) -> PluginStatus {
        let mut plugin = json!({
            "name": "p", "version": "1", "state": "running", "generation": 1, "error": "", "digest": "", "queueDepth": 3,
            "counters": {"reconciles": 7, "errors": 2, "observeErrors": 4},
        });
        plugin.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        serde_json::from_value(plugin).expect("a status")
    }

    #[test]
    fn durations_are_shown_in_fitting_units() {
        for (milliseconds, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1.0 s"),
            (59_999, "59.9 s"),
            (61_000, "1 min 1 s"),
            (7_500_000, "2 h 5 min"),
        ] {
            assert_eq!(duration(milliseconds), expected);
        }
    }

    #[test]
    fn style_and_script_need_nothing_from_elsewhere() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("://") && !text.contains("url(") && !text.contains("@import"), "{text}");
        }
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write"] {
            assert!(!SCRIPT.contains(word), "{word} makes text into HTML or code");
        }
        assert!(STYLE.len() + SCRIPT.len() < 16 << 10, "small enough to be fetched with each page");
    }
}
