//! An OpenTelemetry collector that keeps what it receives.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pilothouse_otlp::message::{ExportTraceServiceRequest, KeyValue, Span, Value};
use prost::Message;
use tokio::net::TcpListener;

/// How a collector responds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CollectorBehaviour {
    Accepts,
    Hangs,
}

/// A collector on the loopback address. It also accepts requests to other paths, as a webhook.
pub(crate) struct Collector {
    port: u16,
    received: Arc<Mutex<Received>>,
}

#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    resources: Vec<Vec<KeyValue>>,
    /// The headers `traceparent` of other requests.
    traceparents: Vec<Option<String>>,
}

impl Collector {
    pub(crate) async fn start(behaviour: CollectorBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let received = Arc::<Mutex<Received>>::default();
        let shared = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                let service = service_fn(move |request| handle(request, Arc::clone(&shared), behaviour));
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(async move {
                    // An error means that the client has closed the connection.
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { port, received }
    }

    /// The flags of a host that sends all its traces here.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        // A few bytes for each test.
        let url: &'static str = Box::leak(self.url().into_boxed_str());
        vec!["--trace-endpoint", url, "--trace-ratio", "1"]
    }

    pub(crate) fn url(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    /// Returns the spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.received.lock().expect("a lock").spans.clone()
    }

    /// Returns the attributes of the hosts that sent spans, one for each request.
    pub(crate) fn resources(&self) -> Vec<Vec<KeyValue>> {
        self.received.lock().expect("a lock").resources.clone()
    }

    /// Returns the header `traceparent` of each request to another path.
    pub(crate) fn traceparents(&self) -> Vec<Option<String>> {
        self.received.lock().expect("a lock").traceparents.clone()
    }
}

async fn handle(
    request: Request<Incoming>,
    received: Arc<Mutex<Received>>,
    behaviour: CollectorBehaviour,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if behaviour == CollectorBehaviour::Hangs {
        std::future::pending::<()>().await;
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let mut received = received.lock().expect("a lock");
    if head.uri.path() == "/v1/traces" {
        let message = ExportTraceServiceRequest::decode(body).expect("a message");
        for of_host in message.resource_spans {
            received.resources.push(of_host.resource.unwrap_or_default().attributes);
            received.spans.extend(of_host.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    } else {
        let traceparent =
            head.headers.get("traceparent").map(|value| value.to_str().expect("ASCII").to_owned());
        received.traceparents.push(traceparent);
    }
    Ok(Response::new(Full::default()))
}

/// Returns the text of a span's attribute.
pub(crate) fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::Text(text) => Some(text),
        Value::Number(_) => None,
    }
}
