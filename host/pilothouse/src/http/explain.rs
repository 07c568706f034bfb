//! `/api/explain`: why a key was reconciled, or was not.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use pilothouse_controller::{Explanation, PluginHost};
use serde::Deserialize;

use super::{AppState, control};

/// The longest name of a plugin or a watch, in bytes.
const MAX_NAME: usize = 253;
/// The longest key, in bytes: a namespace has at most 63, a name at most 253.
const MAX_KEY: usize = 63 + 1 + 253;

/// A question about a key.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ExplainQuery {
    pub(super) plugin: String,
    pub(super) key: String,
    pub(super) watch: String,
}

impl ExplainQuery {
    /// Answers the question. The error has the HTTP status, and a line that says what is wrong with the question.
    pub(super) async fn answer(&self, host: &PluginHost) -> Result<Explanation, (StatusCode, String)> {
        for (name, text, limit) in [
            ("plugin", &self.plugin, MAX_NAME),
            ("key", &self.key, MAX_KEY),
            ("watch", &self.watch, MAX_NAME),
        ] {
            if text.len() > limit {
                return Err((StatusCode::BAD_REQUEST, format!("{name} has more than {limit} bytes")));
            }
        }
        if self.plugin.is_empty() || self.key.is_empty() {
            let text = "name a plugin and a key: /api/explain?plugin=NAME&key=NAMESPACE/NAME";
            return Err((StatusCode::BAD_REQUEST, text.to_owned()));
        }
        let watch = Some(self.watch.as_str()).filter(|watch| !watch.is_empty());
        let explained = host.explain(&self.plugin, watch, &self.key).await;
        explained.map_err(|error| (control::status(&error), error.to_string()))
    }
}

pub(super) async fn explain(State(state): State<AppState>, Query(query): Query<ExplainQuery>) -> Response {
    match query.answer(&state.host).await {
        Ok(explanation) => Json(explanation).into_response(),
        Err((code, text)) => (code, format!("{text}\n")).into_response(),
    }
}
