//! A registry in this process, over plain HTTP, with what `pilothouse push` and a host request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use axum::http::{HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::binary;

/// What a registry stores, and how it answers.
#[derive(Default)]
struct Content {
    /// Blobs and manifests by their path.
    stored: Mutex<BTreeMap<String, Vec<u8>>>,
    /// How repositories ask for credentials, by the beginning of the path. None are accepted.
    challenges: Mutex<BTreeMap<String, String>>,
    /// Whether a response with a blob stops in the middle.
    is_stalled: AtomicBool,
}

/// The type of the layer of a signature in cosign's older format, and the annotation with the signature.
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A registry. Dropping this stops it.
pub(crate) struct Registry {
    address: SocketAddr,
    content: Arc<Content>,
    task: JoinHandle<()>,
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let content = Arc::<Content>::default();
        let router = Router::new().fallback(respond).with_state(Arc::clone(&content));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { address, content, task }
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

    /// Stores a signature of a manifest, in cosign's older format, whose bytes are no signature by any key.
    pub(crate) fn push_bad_signature(&self, repository: &str, manifest: &str) {
        let payload = json!({
            "critical": {
                "identity": {"docker-reference": format!("{}/{repository}", self.address)},
                "image": {"docker-manifest-digest": manifest},
                "type": "cosign container image signature",
            },
            "optional": null,
        });
        let payload = payload.to_string().into_bytes();
        let descriptor = |kind: &str, content: &[u8]| json!({"mediaType": kind, "digest": digest(content), "size": content.len()});
        let mut layer = descriptor(SIMPLE_SIGNING, &payload);
        layer["annotations"] = json!({SIGNATURE: "bm8gc2lnbmF0dXJl"});
        let config = b"{}".to_vec();
        let signature = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "layers": [layer],
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        });
        let tag = format!("{}.sig", manifest.replace(':', "-"));
        let mut stored = self.content.stored.lock().expect("no panic");
        for blob in [payload, config] {
            stored.insert(format!("/v2/{repository}/blobs/{}", digest(&blob)), blob);
        }
        stored.insert(format!("/v2/{repository}/manifests/{tag}"), signature.to_string().into_bytes());
    }

    /// Stores a manifest under a tag. What it names is not stored.
    pub(crate) fn put_manifest(&self, repository: &str, tag: &str, manifest: &serde_json::Value) {
        let path = format!("/v2/{repository}/manifests/{tag}");
        self.content.stored.lock().expect("no panic").insert(path, manifest.to_string().into_bytes());
    }

    /// Has a repository ask for credentials with this header, whatever a request has.
    pub(crate) fn refuse(&self, repository: &str, challenge: &str) {
        let path = format!("/v2/{repository}/");
        self.content.challenges.lock().expect("no panic").insert(path, challenge.to_owned());
    }

    /// Sets whether a response with a blob stops in the middle and never ends.
    pub(crate) fn stall_blobs(&self, is_stalled: bool) {
        self.content.is_stalled.store(is_stalled, Ordering::SeqCst);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(State(content): State<Arc<Content>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body").to_vec();
    let path = head.uri.path().to_owned();
    let challenges = content.challenges.lock().expect("no panic");
    if let Some((_, challenge)) = challenges.iter().find(|(beginning, _)| path.starts_with(*beginning)) {
        return (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge.clone())]).into_response();
    }
    let mut stored = content.stored.lock().expect("no panic");
    match (&head.method, path.split_once("/blobs/uploads/")) {
        (&Method::POST, Some(_)) => {
            return (StatusCode::ACCEPTED, [(LOCATION, format!("{path}1"))]).into_response();
        }
        (&Method::PUT, Some((repository, _))) => {
            stored.insert(format!("{repository}/blobs/{}", digest(&body)), body);
            return StatusCode::CREATED.into_response();
        }
        _ => {}
    }
    if let (&Method::PUT, Some((repository, _))) = (&head.method, path.split_once("/manifests/")) {
        stored.insert(format!("{repository}/manifests/{}", digest(&body)), body.clone());
        stored.insert(path, body);
        return StatusCode::CREATED.into_response();
    }
    let Some(found) = stored.get(&path).cloned() else { return StatusCode::NOT_FOUND.into_response() };
    let headers = [
        (CONTENT_TYPE, MANIFEST.to_owned()),
        (HeaderName::from_static("docker-content-digest"), digest(&found)),
    ];
    if path.contains("/blobs/") && content.is_stalled.load(Ordering::SeqCst) {
        let half = Bytes::copy_from_slice(&found[..found.len() / 2]);
        let endless = stream::iter([Ok::<_, std::io::Error>(half)]).chain(stream::pending());
        return (headers, [(CONTENT_LENGTH, found.len())], Body::from_stream(endless)).into_response();
    }
    (headers, Body::from(found)).into_response()
}

fn digest(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
