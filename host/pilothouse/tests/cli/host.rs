//! A running `pilothouse dev`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::binary::pilothouse;

/// A running `pilothouse dev`. Its output goes to the files `stdout` and `stderr` in the folder. Dropping this kills the process.
pub(crate) struct Dev<'a> {
    pub(crate) child: Child,
    folder: &'a Path,
}

impl Drop for Dev<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A response of the status server.
pub(crate) struct Response {
    pub(crate) content_type: String,
    pub(crate) body: String,
}

impl<'a> Dev<'a> {
    /// Starts the host in the folder, with further arguments.
    pub(crate) fn start(folder: &'a Path, arguments: &[&str]) -> Self {
        Self::start_by(pilothouse(folder), folder, arguments)
    }

    /// Starts the host by this command, in place of the binary alone.
    pub(crate) fn start_by(mut command: Command, folder: &'a Path, arguments: &[&str]) -> Self {
        let file = |name: &str| fs::File::create(folder.join(name)).expect("a file");
        let child = command
            .args(["dev", "--listen", "127.0.0.1:0", "--log-format", "json"])
            .args(arguments)
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .stdin(Stdio::null())
            .spawn()
            .expect("it starts");
        Self { child, folder }
    }

    /// Returns the host's log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }

    /// Sends a GET request to the status server. Returns `None` before the server has printed its address or accepts connections.
    pub(crate) async fn get(&self, path: &str) -> Option<Response> {
        let stdout = fs::read_to_string(self.folder.join("stdout")).unwrap_or_default();
        let url = stdout.lines().find_map(|line| line.strip_prefix("status      "))?;
        get(&format!("{}{path}", url.trim_end_matches('/'))).await
    }

    /// Returns the JSON document at a path of the status server, or `None` as [`get`](Self::get) does.
    pub(crate) async fn json(&self, path: &str) -> Option<Value> {
        let response = self.get(path).await?;
        Some(serde_json::from_str(&response.body).expect("JSON"))
    }
}

/// Sends a GET request. Returns `None` if nobody accepts the connection.
pub(crate) async fn get(url: &str) -> Option<Response> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let response = client.get(url.parse().expect("a URL")).await.ok()?;
    let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    Some(Response { content_type, body: String::from_utf8_lossy(&body).into_owned() })
}
