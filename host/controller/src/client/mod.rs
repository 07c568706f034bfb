//! Requests to the API server other than watches: live reads and writes, discovery, CRDs, Events.

pub(crate) mod clients;
mod crds;
mod discovery;
mod error;
mod events;
pub(crate) mod fence;
pub(crate) mod in_flight;
mod live;
mod origin;
pub(crate) mod quota;
mod reconcile_context;
mod warnings;
pub(crate) mod write_grants;
mod write_outcome;
pub(crate) mod writer;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use pilothouse_model::percent_encoding::query_value;
use tokio::time::timeout;

pub use crds::FIELD_MANAGER;
pub(crate) use crds::{CrdError, apply_crds, missing_crd, unestablished_crd};
pub use discovery::ResourceLists;
pub(crate) use discovery::{Discovery, DiscoveryError, Freshness};
pub(crate) use error::RequestError;
pub(crate) use events::{EventRecorder, NewEvent, short_note};
pub(crate) use live::LiveClient;
pub use origin::RequestOrigin;
pub(crate) use reconcile_context::ReconcileContext;
pub(crate) use write_outcome::{WriteOutcome, parse_creation, parse_deletion, parse_object, parse_update};

use crate::access::ServiceAccount;
use crate::logs::PluginLog;
use crate::runtime::queue::ReconcileKey;
use crate::trace::{OpenSpan, TRACEPARENT};
use warnings::WarningLog;

/// Sends requests to the API server and parses its error responses.
#[derive(Clone)]
pub(crate) struct ApiClient {
    client: kube::Client,
    /// The user to impersonate; `None` for the host's own identity.
    user: Option<HeaderValue>,
    /// Where the server's warnings are written; `None` drops them.
    warnings: Option<WarningLog>,
    /// The span that the requests belong to; `None` without tracing.
    traceparent: Option<HeaderValue>,
    /// The plugin and the reconcile that the requests belong to; `None` for those of the host itself.
    origin: Option<RequestOrigin>,
    names_origins: bool,
}

/// A request body and its content type.
#[derive(Clone)]
pub(crate) struct Payload {
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
}

pub(crate) const JSON: &str = "application/json";
/// Limit in bytes for responses without a narrower one, such as written objects; many times what etcd stores.
const MAX_RESPONSE_SIZE: usize = 64 << 20;
/// How long one request may take, response body included. API servers end a request after a minute, unless it is a watch.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(2);
/// Limit in bytes for the body of an error response.
const MAX_ERROR_SIZE: usize = 256 << 10;
const IMPERSONATE_USER: &str = "impersonate-user";
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

impl Payload {
    pub(crate) fn json(body: impl Into<Bytes>) -> Self {
        Self { content_type: JSON, body: body.into() }
    }
}

impl ApiClient {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self { client, user: None, warnings: None, traceparent: None, origin: None, names_origins: false }
    }

    /// Returns a client that impersonates a service account. Its groups are not sent: the API server knows
    /// the groups of a service account, and impersonating groups needs permissions that the host otherwise does
    /// not need.
    pub(crate) fn acting_as(&self, account: &ServiceAccount) -> Self {
        // The name of a service account is plain ASCII, which is valid in every header.
        let user = HeaderValue::from_str(&account.user()).ok();
        debug_assert!(user.is_some(), "{account}");
        Self { user, ..self.clone() }
    }

    /// Writes each warning of the server to the plugin's log once.
    pub(crate) fn with_warnings_in(mut self, log: PluginLog) -> Self {
        self.warnings = Some(WarningLog::new(log));
        self
    }

    /// Sets whether requests of plugins have a [`RequestOrigin`] among their extensions, where the layers below the client find it.
    pub(crate) fn naming_origins(self, names_origins: bool) -> Self {
        Self { names_origins, ..self }
    }

    /// Returns the client for one request of a plugin: this one, unless the request is traced or names its origin.
    pub(crate) fn for_plugin_request(
        &self,
        plugin: &Arc<str>,
        item: Option<&ReconcileKey>,
        span: Option<&OpenSpan>,
    ) -> Cow<'_, Self> {
        if span.is_none() && !self.names_origins {
            return Cow::Borrowed(self);
        }
        let mut client = span.map_or_else(|| self.clone(), |span| self.for_span(span));
        client.origin = self.names_origins.then(|| RequestOrigin::new(plugin, item));
        Cow::Owned(client)
    }

    /// Returns a client for the request of a span.
    pub(crate) fn for_span(&self, span: &OpenSpan) -> Self {
        Self { traceparent: span.traceparent(), ..self.clone() }
    }

    /// Sends one request and returns the body of a successful response. Dropping the future abandons the
    /// request: the server may or may not have carried it out. The request ends after [`REQUEST_TIMEOUT`].
    pub(crate) async fn request(
        &self,
        method: Method,
        path_and_query: &str,
        payload: Option<Payload>,
    ) -> Result<Bytes, RequestError> {
        self.request_with_limit(method, path_and_query, payload, MAX_RESPONSE_SIZE).await
    }

    /// Like [`request`](Self::request), with another limit: a response of more than `limit` bytes is an error
    /// and is not read to its end.
    pub(crate) async fn request_with_limit(
        &self,
        method: Method,
        path_and_query: &str,
        payload: Option<Payload>,
        limit: usize,
    ) -> Result<Bytes, RequestError> {
        let exchange = self.exchange(method, path_and_query, payload, limit);
        let late = |_| {
            Err(RequestError::Transport(format!("no complete response in {} s", REQUEST_TIMEOUT.as_secs())))
        };
        timeout(REQUEST_TIMEOUT, exchange).await.unwrap_or_else(late)
    }

    /// Sends one request and reads the response, however long that takes.
    async fn exchange(
        &self,
        method: Method,
        path_and_query: &str,
        payload: Option<Payload>,
        limit: usize,
    ) -> Result<Bytes, RequestError> {
        let mut request = Request::builder().method(method).uri(path_and_query).header(ACCEPT, JSON);
        if let Some(user) = &self.user {
            request = request.header(IMPERSONATE_USER, user);
        }
        if let Some(traceparent) = &self.traceparent {
            request = request.header(TRACEPARENT, traceparent);
        }
        if let Some(origin) = &self.origin {
            request = request.extension(origin.clone());
        }
        let body = match payload {
            Some(payload) => {
                request = request.header(CONTENT_TYPE, payload.content_type);
                Body::from(payload.body)
            }
            None => Body::empty(),
        };
        let request = request.body(body).map_err(RequestError::transport)?;
        let response = self.client.send(request).await.map_err(RequestError::transport)?;
        let (head, body) = response.into_parts();
        if let Some(warnings) = &self.warnings {
            warnings.record(&head.headers);
        }
        let is_success = head.status.is_success();
        let limit = if is_success { limit } else { MAX_ERROR_SIZE };
        let body = match Limited::new(body, limit).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => match is_success {
                true => return Err(RequestError::ResponseTooLarge { limit }),
                // The status code says what matters.
                false => Bytes::from(format!("its message exceeds {limit} bytes")),
            },
            Err(error) => return Err(RequestError::transport(&*error)),
        };
        if is_success {
            return Ok(body);
        }
        let retry_after =
            head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
        let retry_after = retry_after.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
        Err(RequestError::answered(head.status, &body, retry_after))
    }

    /// Sends a GET. Returns `None` for a 404.
    pub(crate) async fn get(&self, path_and_query: &str) -> Result<Option<Bytes>, RequestError> {
        self.get_with_limit(path_and_query, MAX_RESPONSE_SIZE).await
    }

    /// Like [`get`](Self::get), for a response of at most `limit` bytes.
    pub(crate) async fn get_with_limit(
        &self,
        path_and_query: &str,
        limit: usize,
    ) -> Result<Option<Bytes>, RequestError> {
        match self.request_with_limit(Method::GET, path_and_query, None, limit).await {
            Ok(body) => Ok(Some(body)),
            Err(error) if error.code() == Some(StatusCode::NOT_FOUND.as_u16()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Builds a query string from the parameters that have a value.
pub(crate) fn query(parameters: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        text.push_str(&query_value(value));
    }
    text
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::trace::{TraceOptions, Tracer};

    #[tokio::test]
    async fn a_response_beyond_the_limit_is_refused_and_one_at_the_limit_is_read() {
        let service = tower::service_fn(async |_: Request<Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(vec![b'x'; 100])))
        });
        let server = ApiClient::new(kube::Client::new(service, "default"));
        let read = server.request_with_limit(Method::GET, "/", None, 100).await.expect("within the limit");
        assert_eq!(read.len(), 100);
        let refused =
            server.request_with_limit(Method::GET, "/", None, 99).await.expect_err("beyond the limit");
        assert_eq!(refused.code(), Some(413));
        assert!(refused.to_string().contains("limits.messageSize of 99 bytes"), "{refused}");
        assert!(refused.leaves_outcome_open(), "a write may have been carried out");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_complete_response_ends() {
        // One server sends no head, the other one a byte of the body per second.
        let silent = tower::service_fn(async |_: Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, std::convert::Infallible>>().await
        });
        let slow = tower::service_fn(async |_: Request<Body>| {
            let bytes = futures::stream::repeat(Bytes::from_static(b"x")).then(async |byte| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, std::convert::Infallible>(http_body::Frame::data(byte))
            });
            Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::StreamBody::new(bytes)))
        });
        for client in [kube::Client::new(silent, "default"), kube::Client::new(slow, "default")] {
            let start = tokio::time::Instant::now();
            let error = ApiClient::new(client).get("/").await.expect_err("no complete response");
            assert_eq!(start.elapsed(), REQUEST_TIMEOUT);
            assert!(error.to_string().contains("no complete response in 120 s"), "{error}");
            assert!(error.leaves_outcome_open() && error.is_transient());
        }
    }

    #[tokio::test]
    async fn an_oversized_error_response_keeps_its_code() {
        let service = tower::service_fn(async |_: Request<Body>| {
            let response =
                http::Response::builder().status(403).body(Body::from(vec![b'x'; MAX_ERROR_SIZE + 1]));
            Ok::<_, std::convert::Infallible>(response.expect("a response"))
        });
        let server = ApiClient::new(kube::Client::new(service, "default"));
        let error = server.request(Method::GET, "/", None).await.expect_err("forbidden");
        assert_eq!(error.code(), Some(403));
        assert!(error.to_string().len() < 200, "{error}");
    }

    #[tokio::test]
    async fn only_a_client_for_an_account_sends_the_impersonation_header() {
        let service = tower::service_fn(async |request: Request<Body>| {
            let user = request.headers().get("impersonate-user").map_or(&b"host"[..], HeaderValue::as_bytes);
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(user.to_vec())))
        });
        let server = ApiClient::new(kube::Client::new(service, "default"));
        let account = ServiceAccount::parse("bots/a").expect("an account");
        let user = async |server: &ApiClient| server.get("/").await.expect("answered").expect("a body");
        assert_eq!(user(&server.acting_as(&account)).await, "system:serviceaccount:bots:a");
        assert_eq!(user(&server).await, "host");
    }

    #[tokio::test]
    async fn only_a_client_for_a_span_sends_a_trace_header() {
        let service = tower::service_fn(async |request: Request<Body>| {
            let header = request.headers().get("traceparent").map_or(&b"none"[..], HeaderValue::as_bytes);
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(header.to_vec())))
        });
        let server = ApiClient::new(kube::Client::new(service, "default"));
        let header = async |server: &ApiClient| server.get("/").await.expect("answered").expect("a body");
        let metrics = crate::metrics::Metrics::register(&mut Default::default());
        let (tracer, _spans) =
            Tracer::new(&TraceOptions { ratio: 1.0, slow: Duration::MAX }, &metrics, &Default::default());
        let trace = tracer.begin(Duration::ZERO, None).expect("a trace");
        let span = trace.request("k8s.read", &Method::GET);
        let expected = span.traceparent().expect("a header");
        assert_eq!(header(&server.for_span(&span)).await, expected.as_bytes());
        assert_eq!(header(&server).await, "none");
    }

    #[test]
    fn queries_omit_empty_parameters_and_escape_values() {
        assert_eq!(query(&[("a", ""), ("b", "")]), "");
        assert_eq!(query(&[("a", "x"), ("b", ""), ("c", "k in (ä,b)")]), "?a=x&c=k%20in%20%28%C3%A4%2Cb%29");
    }
}
