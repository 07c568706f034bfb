//! The types with which a guest's `wasi:http` requests are passed to the [`Host`](crate::Host).

use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use thiserror::Error;

/// The streamed body of a request or a response.
pub type HttpBody = UnsyncBoxBody<Bytes, HttpError>;

/// How long each step of a request may take: the host's limits, or less if the guest asks for less. The time limit of the guest's call
/// applies as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpTimeouts {
    /// For resolving the name, connecting, and the TLS handshake; default 5 s.
    pub connect: Duration,
    /// From the connection to the head of the response; default 30 s.
    pub first_byte: Duration,
    /// Between two pieces of the response's body; default 10 s. The sandbox enforces this one, not the host.
    pub between_bytes: Duration,
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(30),
            between_bytes: Duration::from_secs(10),
        }
    }
}

/// A step of a request, which has a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStep {
    /// Resolving the name, connecting, and the TLS handshake.
    Connect,
    /// Waiting for the head of the response.
    FirstByte,
    /// Waiting for the next piece of the response's body.
    BetweenBytes,
}

impl HttpStep {
    /// Returns what the request waits for in this step.
    fn awaited(self) -> &'static str {
        match self {
            Self::Connect => "a connection",
            Self::FirstByte => "the response",
            Self::BetweenBytes => "more of the response's body",
        }
    }
}

/// Why a guest's HTTP request failed. The guest gets the nearest error code of `wasi:http`; this text goes to the plugin's log.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HttpError {
    /// The request is not granted. The text says which grant is missing and where to write it.
    #[error("{0}")]
    Denied(String),
    /// The guest is in a call whose result must depend on its arguments alone.
    #[error("HTTP requests aren't available during {call}")]
    UnavailableInCall {
        /// The export that was running.
        call: &'static str,
    },
    /// The request has no valid URL.
    #[error("an HTTP request has no usable URL: {0}")]
    Url(&'static str),
    /// The method is not allowed. CONNECT would turn the connection into a tunnel for any protocol.
    #[error("HTTP requests with the method {0} aren't available")]
    Method(String),
    /// The host name has no address.
    #[error("{0}")]
    NotFound(String),
    /// A granted host name resolves to an address that names must not resolve to.
    #[error("{0}")]
    ForbiddenAddress(String),
    /// The connection could not be established.
    #[error("{0}")]
    Unreachable(String),
    /// The TLS handshake failed.
    #[error("{message}")]
    Tls {
        /// What went wrong.
        message: String,
        /// Whether the peer's certificate is the problem.
        certificate: bool,
    },
    /// The peer does not speak HTTP, or closed the connection in the middle of a message.
    #[error("{0}")]
    Protocol(String),
    /// A step took too long.
    #[error("an HTTP request waited {allowed:?} for {}", .step.awaited())]
    Timeout {
        /// The step.
        step: HttpStep,
        /// The timeout of the step.
        allowed: Duration,
    },
    /// The instance has too many requests in flight.
    #[error(
        "exceeded limits.httpRequests of {allowed}: read or drop a response before sending the next request"
    )]
    TooMany {
        /// The limit.
        allowed: u32,
    },
    /// The body of the request is too large.
    #[error("the body of an HTTP request exceeded limits.httpBody of {allowed} bytes")]
    RequestBody {
        /// The limit, in bytes.
        allowed: usize,
    },
    /// The body of the response is too large.
    #[error("the body of an HTTP response exceeded limits.httpBody of {allowed} bytes")]
    ResponseBody {
        /// The limit, in bytes.
        allowed: usize,
    },
    /// The guest dropped the request, or its call ended.
    #[error("the HTTP request was abandoned")]
    Abandoned,
}
