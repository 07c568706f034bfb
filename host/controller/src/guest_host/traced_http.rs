//! Plugins' HTTP requests in traces.

use std::sync::Arc;

use pilothouse_plugin::{HttpBody, HttpError, HttpTimeouts};

use crate::outgoing::HttpClient;
use crate::trace::{ReconcileTrace, TRACEPARENT};

/// Sends an HTTP request within a span, which has the host but neither path nor headers: they may be secret. A `traceparent` of the guest stays.
pub(super) async fn send_traced(
    http: &HttpClient,
    trace: &Arc<ReconcileTrace>,
    mut request: http::Request<HttpBody>,
    timeouts: &HttpTimeouts,
) -> Result<http::Response<HttpBody>, HttpError> {
    let mut span = trace.request("http.out", request.method());
    span.text("server.address", request.uri().host().unwrap_or_default());
    if let Some(port) = request.uri().port_u16() {
        span.number("server.port", port);
    }
    if let Some(traceparent) = span.traceparent()
        && !request.headers().contains_key(TRACEPARENT)
    {
        // A request with too many headers is sent without this one.
        let _ = request.headers_mut().try_insert(TRACEPARENT, traceparent);
    }
    let response = http.send(request, timeouts).await;
    match &response {
        Ok(response) => span.finish(Some(response.status().as_u16()), None),
        Err(HttpError::Denied(_)) => span.finish(None, Some("denied")),
        Err(HttpError::Timeout { .. }) => span.finish(None, Some("timeout")),
        Err(_) => span.finish(None, Some("no_response")),
    }
    response
}
