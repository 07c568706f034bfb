use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::{ResponseBody, State, handle};
use crate::access::User;
use crate::request::{Query, body, path};
use crate::rest::respond;
use crate::status::Status;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The server as a tower service over HTTP requests. It is always ready and never fails: errors are answers.
#[derive(Clone)]
pub struct ApiService {
    state: Arc<State>,
    /// Whom requests without credentials come from.
    sender: Arc<User>,
    shutdown: CancellationToken,
}

impl ApiService {
    pub(super) fn new(state: Arc<State>, sender: Arc<User>, shutdown: CancellationToken) -> Self {
        Self { state, sender, shutdown }
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { state, sender, shutdown } = self.clone();
        Box::pin(async move {
            let answer = AssertUnwindSafe(answer(&state, request, sender, shutdown)).catch_unwind().await;
            Ok(answer.unwrap_or_else(|panic| {
                // No lock is poisoned by a panic, and a table changes in one step: the server goes on.
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                tracing::error!(panic = text, "a request handler panicked; the request is answered with 500");
                respond::failure(&Status::internal(format!("the request handler panicked: {text}")))
            }))
        })
    }
}

async fn answer<B>(
    state: &Arc<State>,
    request: Request<B>,
    sender: Arc<User>,
    shutdown: CancellationToken,
) -> Response<ResponseBody>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    match read(request, sender, shutdown).await {
        Ok(request) => handle::handle(state, &request).await,
        Err(status) => respond::failure(&status),
    }
}

/// Reads a request whole.
async fn read<B>(
    request: Request<B>,
    sender: Arc<User>,
    shutdown: CancellationToken,
) -> Result<crate::request::Request, Status>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, content) = request.into_parts();
    let collected = Limited::new(content, body::LIMIT).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            Status::too_large(body::LIMIT)
        } else {
            Status::bad_request(format!("the request's body could not be read: {error}"))
        }
    })?;
    Ok(crate::request::Request {
        target: path::parse(parts.uri.path()),
        query: Query::parse(parts.uri.query().unwrap_or_default())?,
        uri: parts.uri,
        method: parts.method,
        headers: parts.headers,
        body: collected.to_bytes(),
        sender,
        shutdown,
    })
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiService").finish_non_exhaustive()
    }
}
