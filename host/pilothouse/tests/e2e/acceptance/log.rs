//! Follows a plugin's log.

use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use serde::Deserialize;

/// A line of `/api/logs`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Line {
    pub(super) level: String,
    pub(super) message: String,
    #[serde(default)]
    fields: Vec<(String, String)>,
}

impl Line {
    /// Returns the value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Follows the log of one plugin until this is dropped.
pub(super) struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Log {
    pub(super) fn follow(status_url: &str, plugin: &str) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let url = format!("{status_url}/api/logs?plugin={plugin}&follow=true");
        let task = tokio::spawn(read(url, Arc::clone(&lines)));
        Self { lines, task }
    }

    /// Returns the number of lines so far.
    pub(super) fn len(&self) -> usize {
        self.lines.lock().len()
    }

    /// Returns the lines after a position that satisfy the predicate.
    pub(super) fn find(&self, from: usize, predicate: impl Fn(&Line) -> bool) -> Vec<Line> {
        let lines = self.lines.lock();
        lines.get(from..).unwrap_or_default().iter().filter(|line| predicate(line)).cloned().collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(url: String, lines: Arc<Mutex<Vec<Line>>>) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let mut body = client.get(url.parse().expect("a URL")).await.expect("the host answers").into_body();
    let mut rest = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        rest.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            lines.lock().push(serde_json::from_slice(&line).expect("a line of JSON"));
        }
    }
}
