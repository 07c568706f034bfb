//! HTTP services of a scenario, with which a plugin can exchange requests.

use serde_json::Value;

/// A request of the plugin to an HTTP service.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRequest {
    /// The method in upper case.
    pub method: String,
    /// The host of the URL, without the port.
    pub host: String,
    /// The path and the query, beginning with `/`.
    pub path: String,
    /// The body.
    pub body: Vec<u8>,
}

/// The answer of an HTTP service.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The value of `content-type`.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// The HTTP services of a scenario, with their state. A pure state machine.
pub trait HttpServices: Send {
    /// Answers a request and applies its effect; `None` if no service has this host.
    fn answer(&mut self, request: &HttpRequest, now_ms: u64) -> Option<HttpAnswer>;

    /// Returns the state of all services, for invariants: a map from the service's name to its state.
    fn state(&self) -> Value;
}
