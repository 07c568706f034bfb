//! A registry in this process, over plain HTTP, with what `pilothouse push` and a host request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::binary;

/// Blobs and manifests by their path.
type Content = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A registry. Dropping this stops it.
pub(crate) struct Registry {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().fallback(respond).with_state(Content::default());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { address, task }
    }

    /// The registry as `host:port`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// The reference of a tag.
    pub(crate) fn image(&self, repository_and_tag: &str) -> String {
        format!("oci://{}/{repository_and_tag}", self.address)
    }

    /// Pushes a plugin with `pilothouse push`. Returns the digest of its manifest.
    pub(crate) fn push(&self, repository_and_tag: &str, wasm: &[u8]) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("plugin.wasm");
        std::fs::write(&file, wasm).expect("written");
        let image = self.image(repository_and_tag);
        let output =
            binary().arg("push").arg(&file).args([&image, "--plain-http"]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let (_, digest) = text.trim().rsplit_once('@').expect("a digest");
        digest.to_owned()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(State(content): State<Content>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body").to_vec();
    let path = head.uri.path().to_owned();
    let mut content = content.lock().expect("no panic");
    match (&head.method, path.split_once("/blobs/uploads/")) {
        (&Method::POST, Some(_)) => {
            return (StatusCode::ACCEPTED, [(LOCATION, format!("{path}1"))]).into_response();
        }
        (&Method::PUT, Some((repository, _))) => {
            content.insert(format!("{repository}/blobs/{}", digest(&body)), body);
            return StatusCode::CREATED.into_response();
        }
        _ => {}
    }
    if let (&Method::PUT, Some((repository, _))) = (&head.method, path.split_once("/manifests/")) {
        content.insert(format!("{repository}/manifests/{}", digest(&body)), body.clone());
        content.insert(path, body);
        return StatusCode::CREATED.into_response();
    }
    let Some(found) = content.get(&path).cloned() else { return StatusCode::NOT_FOUND.into_response() };
    let headers = [
        (CONTENT_TYPE, MANIFEST.to_owned()),
        (HeaderName::from_static("docker-content-digest"), digest(&found)),
    ];
    (headers, Body::from(found)).into_response()
}

fn digest(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
