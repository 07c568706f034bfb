//! Answers the HTTP requests of plugins within this process, in place of the network.

use futures::future::BoxFuture;
use http::{Request, Response};
use pilothouse_plugin::{HttpBody, HttpError};

/// Answers the HTTP requests of plugins in place of the network, for simulations. It receives only requests that are granted.
pub trait HttpTransport: Send + Sync + 'static {
    /// Returns the response once its head is known.
    fn send(&self, request: Request<HttpBody>) -> BoxFuture<'static, Result<Response<HttpBody>, HttpError>>;
}
