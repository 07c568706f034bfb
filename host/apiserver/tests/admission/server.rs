//! A webhook server behind TLS, whose answers a test decides.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use pilothouse_listen::Authority;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// A running webhook server.
pub(crate) struct WebhookServer {
    address: SocketAddr,
    authority: Authority,
    reviews: Arc<Mutex<Vec<(String, Value)>>>,
    _task: AbortOnDropHandle<()>,
}

impl WebhookServer {
    /// Starts a server that answers each review with the `response` that `handler` returns for its path and `request`. The UID is set.
    pub(crate) async fn start(
        handler: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> WebhookServer {
        let authority = Authority::new().expect("an authority");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let hosts = ["hook.default.svc".to_owned()];
        let acceptor = authority.acceptor(address.ip(), &hosts).expect("a certificate");
        let reviews = Arc::new(Mutex::new(Vec::new()));
        let (handler, seen) = (Arc::new(handler), Arc::clone(&reviews));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, handler, seen) = (acceptor.clone(), Arc::clone(&handler), Arc::clone(&seen));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request: Request<Incoming>| {
                        let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen));
                        async move { Ok::<_, Infallible>(answer(request, &*handler, &seen).await) }
                    });
                    // The client closes the connection.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        WebhookServer { address, authority, reviews, _task: AbortOnDropHandle::new(task) }
    }

    /// Returns a `clientConfig` for a path of the server.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": self.ca_bundle()})
    }

    /// Returns the authority's certificate as a `caBundle`.
    pub(crate) fn ca_bundle(&self) -> Value {
        let pem = ByteString(self.authority.pem().as_bytes().to_vec());
        serde_json::to_value(pem).expect("base64")
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the paths and the `request` of the reviews so far.
    pub(crate) fn reviews(&self) -> Vec<(String, Value)> {
        self.reviews.lock().expect("not poisoned").clone()
    }

    /// Returns the paths of the reviews so far.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.reviews().into_iter().map(|(path, _)| path).collect()
    }
}

async fn answer(
    request: Request<Incoming>,
    handler: &(impl Fn(&str, &Value) -> Value + ?Sized),
    seen: &Mutex<Vec<(String, Value)>>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let mut review: Value = serde_json::from_slice(&body).expect("a review");
    let request = review["request"].take();
    let mut response = handler(&path, &request);
    seen.lock().expect("not poisoned").push((path, request.clone()));
    if response.is_object() {
        response["uid"] = request["uid"].clone();
    }
    review["response"] = response;
    let body = Bytes::from(review.to_string());
    Response::builder().header("content-type", "application/json").body(Full::new(body)).expect("a response")
}

/// Returns the `patch` and `patchType` of a response that allows a write and changes its object.
pub(crate) fn patch(operations: &Value) -> Value {
    let patch = serde_json::to_value(ByteString(operations.to_string().into_bytes())).expect("base64");
    json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"})
}
