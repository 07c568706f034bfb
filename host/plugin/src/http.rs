//! What passes between a guest's `wasi:http` and the [`Host`](crate::Host).

use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use thiserror::Error;

/// A body as it comes or goes, piece by piece.
pub type HttpBody = UnsyncBoxBody<Bytes, HttpError>;

/// How long each step of a request may take: the host's limits, or less where the guest asks for less. The guest's call has a limit of
/// its own over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpTimeouts {
    /// Looking the name up, connecting, and TLS.
    pub connect: Duration,
    /// From then on until the head of the response is there.
    pub first_byte: Duration,
    /// Between two pieces of the response's body. The sandbox holds it, whatever the implementation of the host does.
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

/// A step of a request that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStep {
    /// Looking the name up, connecting, and TLS.
    Connect,
    /// Waiting for the response's head.
    FirstByte,
    /// Waiting for more of the response's body.
    BetweenBytes,
}

impl HttpStep {
    fn awaited(self) -> &'static str {
        match self {
            Self::Connect => "a connection",
            Self::FirstByte => "the response",
            Self::BetweenBytes => "more of the response's body",
        }
    }
}

/// Why a guest's HTTP request failed. The guest gets the nearest error code of `wasi:http`, the plugin's log this text.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HttpError {
    /// Nobody granted it. The text says what is missing and where to write it.
    #[error("{0}")]
    Denied(String),
    /// The guest is in a call that must depend on its arguments alone.
    #[error("HTTP requests aren't available during {call}")]
    NotNow {
        /// The export that was running.
        call: &'static str,
    },
    /// Not a URL that a request can go to.
    #[error("an HTTP request has no usable URL: {0}")]
    Url(&'static str),
    /// A method that would turn the connection into something else.
    #[error("HTTP requests with the method {0} aren't available")]
    Method(String),
    /// The name's address can't be found.
    #[error("{0}")]
    NotFound(String),
    /// A granted name leads to an address that a name must not lead to.
    #[error("{0}")]
    Address(String),
    /// No connection.
    #[error("{0}")]
    Unreachable(String),
    /// A connection, but no TLS on it.
    #[error("{message}")]
    Tls {
        /// What is wrong.
        message: String,
        /// Whether the certificate is.
        certificate: bool,
    },
    /// The peer doesn't speak HTTP, or stopped in the middle of it.
    #[error("{0}")]
    Broken(String),
    /// A step took too long.
    #[error("an HTTP request waited {allowed:?} for {}", .step.awaited())]
    Timeout {
        /// The step.
        step: HttpStep,
        /// How long it might have taken.
        allowed: Duration,
    },
    /// The guest has too many under way.
    #[error(
        "exceeded limits.httpRequests of {allowed}: read or drop a response before sending the next request"
    )]
    TooMany {
        /// The limit.
        allowed: u32,
    },
    /// The guest's body is too large.
    #[error("the body of an HTTP request exceeded limits.httpBody of {allowed} bytes")]
    RequestBody {
        /// The limit, in bytes.
        allowed: usize,
    },
    /// The peer's body is too large.
    #[error("the body of an HTTP response exceeded limits.httpBody of {allowed} bytes")]
    ResponseBody {
        /// The limit, in bytes.
        allowed: usize,
    },
    /// The guest gave it up, or its call ended.
    #[error("the HTTP request was given up")]
    Abandoned,
}
