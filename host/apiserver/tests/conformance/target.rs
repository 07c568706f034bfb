//! A server under test: its client, and a kubeconfig for kubectl.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use pilothouse_apiserver::{AdmissionPlugin, ApiServer};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a response may take.
const TIMEOUT: Duration = Duration::from_secs(40);

/// A server that cases run against.
#[derive(Clone)]
pub(crate) enum Target {
    /// Each case gets an embedded server of its own, in process.
    Embedded,
    /// One server for all cases.
    Shared { client: Client, kubeconfig: PathBuf },
}

/// A response before it is made comparable.
pub(crate) struct Response {
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Bytes,
}

impl Target {
    /// Reads the kubeconfig of a running server.
    pub(crate) async fn of_kubeconfig(path: &Path) -> Self {
        let file = Kubeconfig::read_from(path).expect("a kubeconfig");
        let mut config =
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a context");
        // The answers 429 of evictions are compared, too.
        config.default_retry = false;
        let client = Client::try_from(config).expect("a client");
        Self::Shared { client, kubeconfig: path.to_owned() }
    }

    /// Starts an embedded server that listens until the guard is dropped.
    pub(crate) async fn listening(folder: &Path) -> (Self, DropGuard) {
        let server = embedded();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let kubeconfig = folder.join("kubeconfig");
        let address = listener.local_addr().expect("an address");
        server.write_kubeconfig(&kubeconfig, address).expect("a kubeconfig");
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        tokio::spawn(async move { server.serve(listener, stop).await });
        (Self::of_kubeconfig(&kubeconfig).await, shutdown.drop_guard())
    }

    /// Returns the client for one case.
    pub(crate) fn client(&self) -> Client {
        match self {
            Self::Embedded => Client::new(embedded().service(), "default"),
            Self::Shared { client, .. } => client.clone(),
        }
    }

    /// Returns the kubeconfig for kubectl.
    pub(crate) fn kubeconfig(&self) -> &Path {
        match self {
            Self::Embedded => panic!("kubectl needs a server that listens"),
            Self::Shared { kubeconfig, .. } => kubeconfig,
        }
    }
}

/// Creates an embedded server with the admission plugins of the kube-apiserver of the comparison, which has the flags of envtest.
fn embedded() -> ApiServer {
    ApiServer::builder().disable_admission_plugins([AdmissionPlugin::ServiceAccount]).build()
}

/// Sends a request and reads the response to its end. Panics if it takes too long, as a watch without a timeout does.
pub(crate) async fn send(client: &Client, request: Request<Body>) -> Response {
    let line = format!("{} {}", request.method(), request.uri());
    let response = tokio::time::timeout(TIMEOUT, receive(client, request)).await;
    response.unwrap_or_else(|_| panic!("{line}: the response did not end within {} s", TIMEOUT.as_secs()))
}

async fn receive(client: &Client, request: Request<Body>) -> Response {
    let response = client.send(request).await.expect("a response");
    let (parts, body) = response.into_parts();
    // Warnings may quote texts that are not ASCII.
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Response {
        code: parts.status.as_u16(),
        content_type: parts.headers.get("content-type").map(text).unwrap_or_default(),
        warnings: parts.headers.get_all("warning").iter().map(text).collect(),
        body: body.collect_bytes().await.expect("a body"),
    }
}

impl Response {
    /// Returns the body as JSON; the events of a watch as an array, and any other text as a string.
    pub(crate) fn value(&self) -> Value {
        if let Ok(value) = serde_json::from_slice(&self.body) {
            return value;
        }
        let text = String::from_utf8_lossy(&self.body);
        let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
        match lines {
            Ok(lines) if !lines.is_empty() => lines.into(),
            _ => text.into(),
        }
    }
}
