//! The plugin's log as it grows.

use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use serde::Deserialize;

/// One line, as `/api/logs` tells it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Line {
    pub(super) level: String,
    pub(super) message: String,
    #[serde(default)]
    fields: Vec<(String, String)>,
}

impl Line {
    /// The value of a field. The guest's own fields come first, those that the host adds after them.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Follows `/api/logs` of one plugin until dropped.
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

    /// How many lines there are so far.
    pub(super) fn len(&self) -> usize {
        self.lines.lock().len()
    }

    /// The lines from a position that fit.
    pub(super) fn find(&self, from: usize, fits: impl Fn(&Line) -> bool) -> Vec<Line> {
        let lines = self.lines.lock();
        lines.get(from..).unwrap_or_default().iter().filter(|line| fits(line)).cloned().collect()
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
