//! Sends spans to a collector.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use prost::Message;

use crate::message::{
    ExportTraceServiceRequest, ExportTraceServiceResponse, InstrumentationScope, KeyValue, Resource,
    ResourceSpans, ScopeSpans, Span,
};
use crate::settings::{Settings, SettingsError};
use crate::{retry, tls};

/// Limit in bytes for a response.
const MAX_RESPONSE: usize = 64 << 10;

/// Why spans were not accepted.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct ExportError {
    text: String,
    is_transient: bool,
    retry_after: Option<Duration>,
}

/// Sends spans to a collector.
pub struct Exporter {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    endpoint: Uri,
    /// The endpoint as errors name it.
    endpoint_text: String,
    headers: HeaderMap,
    timeout: Duration,
    resource: Resource,
    scope: InstrumentationScope,
}

impl Exporter {
    /// Creates an exporter for spans of the code with this name and version. Reads certificates from files.
    ///
    /// # Errors
    /// Errors if the file of a private authority cannot be used.
    pub fn new(settings: &Settings, name: &str, version: &str) -> Result<Self, SettingsError> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::config(settings.certificate.as_deref())?)
            .https_or_http()
            .enable_http1()
            .build();
        let mut headers = settings.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static("pilothouse"));
        let attributes = settings.resource.iter().map(|(key, value)| KeyValue::text(key, value.as_str()));
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            endpoint: settings.endpoint.clone(),
            endpoint_text: settings.endpoint_text(),
            headers,
            timeout: settings.timeout,
            resource: Resource { attributes: attributes.collect() },
            scope: InstrumentationScope { name: name.to_owned(), version: version.to_owned() },
        })
    }

    /// Sends the spans, and again if the collector is overloaded or does not answer. Returns the number of spans that it refused.
    ///
    /// # Errors
    /// Errors if the collector has accepted none of them.
    pub async fn export(&self, spans: Vec<Span>) -> Result<usize, ExportError> {
        let body = Bytes::from(self.request(spans).encode_to_vec());
        let mut retries = 0;
        loop {
            let error = match self.send(body.clone()).await {
                Ok(refused) => return Ok(refused),
                Err(error) => error,
            };
            match retry::delay(retries, error.retry_after).filter(|_| error.is_transient) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(error),
            }
            retries += 1;
        }
    }

    fn request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let scope_spans = vec![ScopeSpans { scope: Some(self.scope.clone()), spans }];
        let resource_spans = vec![ResourceSpans { resource: Some(self.resource.clone()), scope_spans }];
        ExportTraceServiceRequest { resource_spans }
    }

    async fn send(&self, body: Bytes) -> Result<usize, ExportError> {
        let late = |_| Err(self.unanswered(&format!("no answer in {:?}", self.timeout)));
        tokio::time::timeout(self.timeout, self.exchange(body)).await.unwrap_or_else(late)
    }

    async fn exchange(&self, body: Bytes) -> Result<usize, ExportError> {
        let request = Request::post(self.endpoint.clone()).body(Full::new(body));
        let mut request = request.map_err(|error| self.unanswered(&error))?;
        request.headers_mut().extend(self.headers.clone());
        let response =
            self.client.request(request).await.map_err(|error| self.unanswered(&Causes(&error)))?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            let retry_after =
                head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            return Err(ExportError {
                text: format!("the trace collector {} answered {}", self.endpoint_text, head.status),
                is_transient: retry::is_transient(head.status.as_u16()),
                retry_after: retry_after.map(Duration::from_secs),
            });
        }
        // The spans are accepted even if the rest of the response is damaged.
        let Ok(body) = Limited::new(body, MAX_RESPONSE).collect().await else { return Ok(0) };
        let response = ExportTraceServiceResponse::decode(body.to_bytes()).unwrap_or_default();
        let refused = response.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(usize::try_from(refused).unwrap_or_default())
    }

    fn unanswered(&self, problem: &dyn std::fmt::Display) -> ExportError {
        let text = format!("the trace collector {} cannot be reached: {problem}", self.endpoint_text);
        ExportError { text, is_transient: true, retry_after: None }
    }
}

/// An error with its causes, on one line.
struct Causes<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;
    use crate::message::ExportTracePartialSuccess;

    /// What a collector got.
    type Received = (http::request::Parts, ExportTraceServiceRequest);

    /// Starts a collector that answers each request with this status and body. Returns its URL and what it receives.
    async fn collector(status: u16, body: Vec<u8>) -> (String, mpsc::UnboundedReceiver<Received>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a connection");
            let service = service_fn(move |request: Request<Incoming>| {
                let (sender, body) = (sender.clone(), body.clone());
                async move {
                    let (head, received) = request.into_parts();
                    let received = received.collect().await.expect("a body").to_bytes();
                    let message = ExportTraceServiceRequest::decode(received).expect("a message");
                    sender.send((head, message)).expect("the test waits");
                    let response = Response::builder().status(status).body(Full::new(Bytes::from(body)));
                    Ok::<_, Infallible>(response.expect("a response"))
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
        (url, receiver)
    }

    fn exporter(url: &str) -> Exporter {
        let read = |name: &str| {
            (name == "OTEL_EXPORTER_OTLP_HEADERS").then(|| "authorization=Bearer%20x".to_owned())
        };
        let settings = Settings::resolve(Some(url), None, &read).expect("settings").expect("an endpoint");
        let settings = settings.with_default_attribute("service.name", "test".to_owned());
        Exporter::new(&settings, "pilothouse", "1").expect("an exporter")
    }

    fn span() -> Span {
        Span { name: "reconcile".to_owned(), ..Span::default() }
    }

    #[tokio::test]
    async fn spans_are_posted_with_their_resource_and_the_headers() {
        let (url, mut received) = collector(200, Vec::new()).await;
        assert_eq!(exporter(&url).export(vec![span()]).await.expect("accepted"), 0);
        let (head, message) = received.recv().await.expect("a request");
        assert_eq!((head.method.as_str(), head.uri.path()), ("POST", "/v1/traces"));
        assert_eq!(
            (&head.headers["content-type"], &head.headers["authorization"]),
            (&HeaderValue::from_static("application/x-protobuf"), &HeaderValue::from_static("Bearer x"),)
        );
        let spans = &message.resource_spans[0];
        let resource = spans.resource.as_ref().expect("a resource");
        assert_eq!(resource.attributes, [KeyValue::text("service.name", "test")]);
        assert_eq!(spans.scope_spans[0].spans, [span()]);
    }

    #[tokio::test]
    async fn spans_that_the_collector_refuses_are_counted() {
        let partial = ExportTracePartialSuccess { rejected_spans: 3, error_message: String::new() };
        let response = ExportTraceServiceResponse { partial_success: Some(partial) };
        let (url, _received) = collector(200, response.encode_to_vec()).await;
        assert_eq!(exporter(&url).export(vec![span()]).await.expect("accepted"), 3);
    }

    #[tokio::test]
    async fn an_error_of_the_collector_is_named_and_not_tried_again() {
        let (url, mut received) = collector(401, Vec::new()).await;
        let error = exporter(&format!("{url}/v1/traces?key=secret")).export(vec![span()]).await;
        let error = error.expect_err("refused").to_string();
        assert!(error.ends_with("/v1/traces answered 401 Unauthorized"), "{error}");
        let (head, _) = received.recv().await.expect("a request");
        assert_eq!(head.uri.query(), Some("key=secret"), "sent, but not in the error");
        assert!(received.try_recv().is_err(), "one request");
    }
}
