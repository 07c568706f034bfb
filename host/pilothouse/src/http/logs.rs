//! `/api/logs`: the kept log lines as NDJSON, and those that follow.

use std::convert::Infallible;
use std::path::Path;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use pilothouse_controller::{LogChunk, PluginLogs, PluginName};
use pilothouse_listen::{ClientNetwork, ConnectionAddresses};
use serde::Deserialize;

use super::fair_permits::FairPermit;
use super::{AppState, load};

#[derive(Deserialize)]
pub(super) struct LogsQuery {
    plugin: Option<String>,
    #[serde(default)]
    follow: bool,
}

pub(super) async fn logs(
    State(state): State<AppState>,
    addresses: Option<Extension<ConnectionAddresses>>,
    Query(query): Query<LogsQuery>,
) -> Response {
    let plugin =
        match query.plugin.as_deref().map(|name| PluginName::of_file(Path::new(&format!("{name}.wasm")))) {
            None => None,
            Some(Ok(name)) => Some(name),
            Some(Err(error)) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
        };
    if let Some(name) = plugin.as_ref().filter(|name| !state.host.has_plugin(name)) {
        let text = format!("no plugin {:?}; /api/plugins lists the plugins of this host\n", name.as_str());
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    let client = addresses.map(|Extension(addresses)| ClientNetwork::of(addresses.client.ip()));
    let permit =
        if query.follow { state.load.follower(client) } else { state.load.large_response(client).await };
    let Some(permit) = permit else {
        let reason = if query.follow { "clients follow the logs" } else { load::LARGE_RESPONSES_ARE_SENT };
        return load::too_many(reason);
    };
    let lines = Body::from_stream(log_lines(state.host.logs().clone(), plugin, query.follow, permit));
    let response = ([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response();
    if query.follow { load::endless(response) } else { response }
}

/// The state of a response.
struct Reader {
    logs: PluginLogs,
    plugin: Option<PluginName>,
    /// The sequence number up to which the lines were read.
    position: u64,
    /// The sequence number up to which lines are read; `None` to wait for further ones.
    end: Option<u64>,
    _permit: FairPermit,
}

/// Streams the kept log lines as NDJSON in chunks. With `follow`, then streams each new line and never ends.
fn log_lines(
    logs: PluginLogs,
    plugin: Option<PluginName>,
    follow: bool,
    permit: FairPermit,
) -> impl futures::Stream<Item = Result<String, Infallible>> {
    let end = (!follow).then(|| logs.newest());
    let reader = Reader { logs, plugin, position: 0, end, _permit: permit };
    futures::stream::unfold(reader, |mut reader| async move {
        let text = reader.next().await?;
        Some((Ok(text), reader))
    })
}

impl Reader {
    /// Returns the next lines, of which there is at least one; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            match self.end {
                Some(end) if self.position >= end => return None,
                Some(_) => {}
                None => self.logs.wait_after(self.position).await,
            }
            let LogChunk { lines, next, .. } = self.logs.chunk(self.position, self.plugin.as_ref());
            self.position = next;
            let text: String = lines
                .iter()
                .filter(|line| self.end.is_none_or(|end| line.sequence <= end))
                .filter_map(|line| serde_json::to_string(line).ok())
                .map(|line| line + "\n")
                .collect();
            if !text.is_empty() {
                return Some(text);
            }
        }
    }
}
