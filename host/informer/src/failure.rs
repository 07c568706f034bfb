//! Failures of requests, classified by what the reflector has to do next.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

/// The longest message that is kept, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The kind of a failure, on which the reflector's next step depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// 401: the credentials are missing or refused.
    Unauthorized,
    /// 403: the credentials lack a permission.
    Forbidden,
    /// 404: the server does not serve the resource, for example because a CRD is not installed.
    NotFound,
    /// 410, or the reason `Expired`: the resource version or the continue token is too old.
    Expired,
    /// "Too large resource version": the server has not reached the requested resource version.
    TooLargeResourceVersion,
    /// 429: the server requests a pause.
    TooManyRequests,
    /// 400, 405, 406, 415 or 422: the server does not understand the request.
    Rejected,
    /// 5xx.
    Server,
    /// The connection was refused: nothing listens at the address.
    ConnectionRefused,
    /// The connection failed or was cut.
    Connection,
    /// No data was received for too long.
    TimedOut,
    /// The response is not what a Kubernetes API server sends.
    Malformed,
    /// The informer itself panicked.
    Defect,
}

impl FailureKind {
    /// Whether the server was unreachable, the connection was lost, or the server answered that it cannot serve.
    pub(crate) fn is_lost_server(self) -> bool {
        matches!(self, Self::ConnectionRefused | Self::Connection | Self::TimedOut | Self::Server)
    }
}

/// A failed list or watch request. Its text names the request, the reason and the remedy.
///
/// ```
/// use pilothouse_informer::{Failure, FailureKind};
///
/// let failure = Failure::response(429, Some("3"), br#"{"kind":"Status","message":"too many requests"}"#);
/// assert_eq!(failure.kind, FailureKind::TooManyRequests);
/// assert_eq!(failure.retry_after, Some(std::time::Duration::from_secs(3)));
/// assert_eq!(failure.to_string(), "request failed: HTTP 429: too many requests; waiting as long as the server asks");
/// ```
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The HTTP status code, if there was a response.
    pub code: Option<u16>,
    /// The message of the server or of the transport.
    pub message: String,
    /// How long the server requests to wait, unchanged: it may be 0 or years. Informers apply bounds of their own.
    pub retry_after: Option<Duration>,
    request: Option<Arc<RequestName>>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestName {
    pub(crate) verb: &'static str,
    /// Plural, version and group, such as `pods.v1`.
    pub(crate) resource: String,
    pub(crate) path: String,
}

/// The fields of a Kubernetes `Status` that are used here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StatusBody {
    code: Option<u16>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<StatusDetails>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusDetails {
    /// Ignored unless it is a number.
    retry_after_seconds: Option<serde_json::Value>,
    causes: Option<Vec<StatusCause>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StatusCause {
    reason: Option<String>,
    message: Option<String>,
}

impl Failure {
    /// Creates a failure without an HTTP response.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            message: truncate_message(message.into()),
            retry_after: None,
            request: None,
            source: None,
        }
    }

    /// Creates a failure of the transport. Refused connections and timeouts are recognised in the chain of sources.
    #[must_use]
    pub fn transport(error: impl Error + Send + Sync + 'static) -> Self {
        let mut kind = FailureKind::Connection;
        let mut messages = vec![error.to_string()];
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(io) = cause.downcast_ref::<std::io::Error>() {
                kind = match io.kind() {
                    std::io::ErrorKind::ConnectionRefused => FailureKind::ConnectionRefused,
                    std::io::ErrorKind::TimedOut => FailureKind::TimedOut,
                    _ => kind,
                };
            }
            let message = cause.to_string();
            if !messages.iter().any(|known| known.contains(&message)) {
                messages.push(message);
            }
            source = cause.source();
        }
        Self { source: Some(Arc::new(error)), ..Self::new(kind, messages.join(": ")) }
    }

    /// Creates a failure from an error response. `body` is the response body, which is a `Status` from a real server.
    /// `retry_after` is the value of the `Retry-After` header in seconds; a date is ignored, as in client-go.
    #[must_use]
    pub fn response(code: u16, retry_after: Option<&str>, body: &[u8]) -> Self {
        let status: StatusBody = serde_json::from_slice(body).unwrap_or_else(|_| StatusBody {
            message: Some(String::from_utf8_lossy(body).chars().take(300).collect()),
            ..StatusBody::default()
        });
        let header = retry_after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        let mut failure = Self::from_status(StatusBody { code: Some(code), ..status });
        failure.retry_after = header.or(failure.retry_after);
        failure
    }

    /// Creates a failure from a `Status` object, as in an ERROR event.
    ///
    /// # Errors
    /// Errors if `json` is not a JSON object of that form.
    pub(crate) fn status(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json).map(Self::from_status)
    }

    /// Returns the error that the transport reported, if the transport failed.
    #[must_use]
    pub fn source_error(&self) -> Option<&(dyn Error + Send + Sync)> {
        self.source.as_deref()
    }

    pub(crate) fn in_request(mut self, request: &Arc<RequestName>) -> Self {
        self.request = Some(Arc::clone(request));
        self
    }

    fn from_status(status: StatusBody) -> Self {
        let details = status.details.unwrap_or_default();
        let too_large =
            details.causes.iter().flatten().any(|cause| {
                cause.reason.as_deref() == Some("ResourceVersionTooLarge")
                    || cause.message.as_deref() == Some("Too large resource version")
            }) || status.message.as_deref().is_some_and(|text| text.contains("Too large resource version"));
        let kind = match (status.code.unwrap_or(0), status.reason.as_deref().unwrap_or_default()) {
            _ if too_large => FailureKind::TooLargeResourceVersion,
            (410, _) | (_, "Expired" | "Gone") => FailureKind::Expired,
            (429, _) | (_, "TooManyRequests") => FailureKind::TooManyRequests,
            (401, _) | (_, "Unauthorized") => FailureKind::Unauthorized,
            (403, _) | (_, "Forbidden") => FailureKind::Forbidden,
            (404, _) | (_, "NotFound") => FailureKind::NotFound,
            (400 | 405 | 406 | 415 | 422, _) | (_, "Invalid" | "BadRequest") => FailureKind::Rejected,
            (500..=599, _) | (_, "InternalError" | "ServiceUnavailable" | "Timeout" | "ServerTimeout") => {
                FailureKind::Server
            }
            _ => FailureKind::Malformed,
        };
        Self {
            kind,
            code: status.code,
            message: truncate_message(status.message.or(status.reason).unwrap_or_default()),
            retry_after: details
                .retry_after_seconds
                .and_then(|seconds| seconds.as_u64())
                .map(Duration::from_secs),
            request: None,
            source: None,
        }
    }

    /// Returns what the operator should do, or what the informer does next.
    fn remedy(&self) -> &'static str {
        match self.kind {
            FailureKind::Unauthorized => {
                "check the credentials in the kubeconfig or the service account's token"
            }
            FailureKind::Forbidden => {
                "grant the verbs list and watch on this resource, in this namespace or in all"
            }
            FailureKind::NotFound => {
                "install the CRD, or ask for a version that the server has; retrying until then"
            }
            FailureKind::Expired => "listing again",
            FailureKind::TooLargeResourceVersion => "reading the current state",
            FailureKind::TooManyRequests => "waiting as long as the server asks",
            FailureKind::Rejected => "check the selectors; retrying",
            FailureKind::Server => "look at the server's log; retrying",
            FailureKind::ConnectionRefused => "is the API server running at this address? retrying",
            FailureKind::Connection | FailureKind::TimedOut => "retrying",
            FailureKind::Defect => "listing again",
            FailureKind::Malformed => "is this a Kubernetes API server? listing again",
        }
    }
}

/// Truncates a server's message before it is kept and logged: an ERROR event could contain megabytes.
fn truncate_message(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
        message.push('…');
        message.shrink_to_fit();
    }
    message
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.request {
            Some(request) => {
                write!(f, "cannot {} {} (GET {}): ", request.verb, request.resource, request.path)
            }
            None => f.write_str("request failed: "),
        }?;
        if let Some(code) = self.code {
            write!(f, "HTTP {code}: ")?;
        }
        let message = if self.message.is_empty() { "no message" } else { self.message.trim_end_matches('.') };
        write!(f, "{message}; {}", self.remedy())
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_classified_by_status_code_and_reason() {
        for (code, body, kind) in [
            (401, "", FailureKind::Unauthorized),
            (403, r#"{"reason":"Forbidden","message":"no"}"#, FailureKind::Forbidden),
            (404, "404 page not found", FailureKind::NotFound),
            (410, r#"{"reason":"Expired"}"#, FailureKind::Expired),
            (429, "", FailureKind::TooManyRequests),
            (422, r#"{"reason":"Invalid"}"#, FailureKind::Rejected),
            (500, r#"{"reason":"InternalError"}"#, FailureKind::Server),
            (503, "<html>", FailureKind::Server),
            (
                504,
                r#"{"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}"#,
                FailureKind::TooLargeResourceVersion,
            ),
            (
                504,
                r#"{"details":{"causes":[{"message":"Too large resource version"}]}}"#,
                FailureKind::TooLargeResourceVersion,
            ),
            (504, r#"{"details":{"causes":[{"reason":"Other","message":"else"}]}}"#, FailureKind::Server),
            (302, "", FailureKind::Malformed),
        ] {
            assert_eq!(Failure::response(code, None, body.as_bytes()).kind, kind, "{code} {body}");
        }
    }

    #[test]
    fn retry_after_is_read_from_the_header_and_from_the_status() {
        let body = br#"{"code":429,"details":{"retryAfterSeconds":7}}"#;
        assert_eq!(Failure::response(429, None, body).retry_after, Some(Duration::from_secs(7)));
        assert_eq!(Failure::response(429, Some("3"), body).retry_after, Some(Duration::from_secs(3)));
        let long = Failure::response(429, Some("18446744073709551615"), b"").retry_after;
        assert_eq!(long, Some(Duration::from_secs(u64::MAX)));
        for none in ["soon", "-1", "1.5", "", "99999999999999999999", "Wed, 21 Oct 2099 07:28:00 GMT"] {
            assert_eq!(Failure::response(429, Some(none), b"").retry_after, None, "{none}");
        }
        for none in ["-1", "1.5", "\"7\"", "1e300", "[]"] {
            let body = format!(r#"{{"code":429,"details":{{"retryAfterSeconds":{none}}}}}"#);
            let failure = Failure::status(body.as_bytes()).expect("a status");
            assert_eq!((failure.kind, failure.retry_after), (FailureKind::TooManyRequests, None), "{none}");
        }
    }

    #[test]
    fn a_refused_connection_is_found_in_the_error_chain() {
        #[derive(Debug, thiserror::Error)]
        #[error("client error (Connect)")]
        struct Outer(#[source] std::io::Error);
        let refused = Outer(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        assert_eq!(Failure::transport(refused).kind, FailureKind::ConnectionRefused);
        let late = Outer(std::io::Error::from(std::io::ErrorKind::TimedOut));
        assert_eq!(Failure::transport(late).kind, FailureKind::TimedOut);
        let cut = Outer(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "cut"));
        let failure = Failure::transport(cut);
        assert_eq!(
            (failure.kind, &*failure.message),
            (FailureKind::Connection, "client error (Connect): cut")
        );
        let source = failure.source_error().map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("client error (Connect)"));
        assert!(Failure::new(FailureKind::Server, "no").source_error().is_none());
    }

    #[test]
    fn a_response_that_is_not_a_status_is_quoted_up_to_a_limit() {
        let failure = Failure::response(503, None, "é".repeat(400).as_bytes());
        assert_eq!(failure.message, "é".repeat(300));
    }

    #[test]
    fn messages_are_truncated_to_a_limit() {
        let long = "é".repeat(1 << 20);
        let body = format!(r#"{{"code":500,"message":"x{long}"}}"#);
        for failure in [
            Failure::status(body.as_bytes()).expect("a status"),
            Failure::response(500, None, body.as_bytes()),
            Failure::new(FailureKind::Malformed, format!("x{long}")),
        ] {
            assert_eq!(failure.message.len(), 4095 + "…".len());
            assert!(failure.message.ends_with("é…"));
        }
    }

    #[test]
    fn the_error_text_names_the_request_and_the_remedy() {
        let request = RequestName {
            verb: "list",
            resource: "pods.v1".into(),
            path: "/api/v1/namespaces/x/pods".into(),
        };
        let failure = Failure::response(403, None, br#"{"message":"pods is forbidden."}"#)
            .in_request(&Arc::new(request));
        assert_eq!(
            failure.to_string(),
            "cannot list pods.v1 (GET /api/v1/namespaces/x/pods): HTTP 403: pods is forbidden; grant the verbs list and \
             watch on this resource, in this namespace or in all"
        );
    }
}
