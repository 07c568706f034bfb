//! Sends the HTTP requests of one version of one plugin. Each request has its own connection: none is shared
//! with another plugin, and none is kept open.
//!
//! While the plugin is suspended because it lacks a permission, nothing is sent and nothing is received: the API server cannot
//! refuse these requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Fuse};
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pilothouse_plugin::{HttpBody, HttpError, HttpStep, HttpTimeouts};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::connect::{Connector, Stream};
use super::{HttpGrants, HttpTransport, Target};
use crate::access::Access;
use crate::client::fence::Fence;

/// Limit in bytes for a response's head, and for what is read ahead of the guest.
const BUFFER_SIZE: usize = 64 << 10;

/// The HTTP client of one version of a plugin.
pub(crate) struct HttpClient {
    grants: HttpGrants,
    connector: Connector,
    fence: Fence,
    access: Arc<Access>,
    /// What answers in place of the network; `None` for the network.
    transport: Option<Arc<dyn HttpTransport>>,
}

impl HttpClient {
    pub(crate) fn new(grants: HttpGrants, connector: Connector, fence: Fence, access: Arc<Access>) -> Self {
        Self { grants, connector, fence, access, transport: None }
    }

    /// Sends the requests to `transport` in place of the network.
    pub(crate) fn with_transport(mut self, transport: Option<Arc<dyn HttpTransport>>) -> Self {
        self.transport = transport;
        self
    }

    /// Sends the request if its host is granted. Returns the response once its head has arrived.
    ///
    /// # Cancellation safety
    /// Dropping the future, or the response's body, closes the connection. What was sent by then stays sent.
    pub(crate) async fn send(
        &self,
        request: Request<HttpBody>,
        timeouts: &HttpTimeouts,
    ) -> Result<Response<HttpBody>, HttpError> {
        let target = Target::of(request.uri()).map_err(HttpError::Url)?;
        let address_scope = self.grants.check(&target).map_err(HttpError::Denied)?;
        let guard = AccessGuard { access: Arc::clone(&self.access), target: target.to_string().into() };
        guard.check()?;
        if let Some(transport) = &self.transport {
            let Some(_permit) = self.fence.enter() else { return Err(replaced(&target)) };
            return within(timeouts.first_byte, HttpStep::FirstByte, transport.send(request)).await;
        }
        let connecting = self.connector.connect(&target, address_scope, timeouts.connect);
        let stream = within(timeouts.connect, HttpStep::Connect, connecting).await?;
        // Held until the response's head has arrived: by then, the server has done or started what it does.
        let Some(_permit) = self.fence.enter() else { return Err(replaced(&target)) };
        // The plugin may have been suspended while the connection was made.
        guard.check()?;
        let request = request.map(|body| guard.clone().wrap(body));
        let exchange = exchange(stream, request, guard.clone());
        tokio::select! {
            biased;
            () = self.access.wait_until_suspended() => Err(guard.denied()),
            response = within(timeouts.first_byte, HttpStep::FirstByte, exchange) => response,
        }
    }
}

fn replaced(target: &Target) -> HttpError {
    HttpError::Denied(format!(
        "the HTTP request to {target} is denied: this version of the plugin was replaced"
    ))
}

/// Stops one request while the plugin is suspended.
#[derive(Clone)]
struct AccessGuard {
    access: Arc<Access>,
    target: Arc<str>,
}

impl AccessGuard {
    /// Errors if the plugin is suspended.
    fn check(&self) -> Result<(), HttpError> {
        if self.access.is_suspended() { Err(self.denied()) } else { Ok(()) }
    }

    fn denied(&self) -> HttpError {
        let reason =
            self.access.reason().unwrap_or_else(|| "the plugin was suspended for a moment".to_owned());
        HttpError::Denied(format!("the HTTP request to {} is denied: {reason}", self.target))
    }

    /// Returns the body, which ends with an error once the plugin is suspended.
    fn wrap(self, body: impl Body<Data = Bytes, Error = HttpError> + Send + 'static) -> HttpBody {
        let access = Arc::clone(&self.access);
        let suspended = async move { access.wait_until_suspended().await }.boxed().fuse();
        GuardedBody { body: body.boxed_unsync(), guard: self, suspended }.boxed_unsync()
    }
}

/// A body of a request or a response, which ends with an error once the plugin is suspended.
struct GuardedBody {
    body: HttpBody,
    guard: AccessGuard,
    /// Wakes a task that waits for a frame.
    suspended: Fuse<BoxFuture<'static, ()>>,
}

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if self.suspended.poll_unpin(context).is_ready() {
            return Poll::Ready(Some(Err(self.guard.denied())));
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        // Nobody is woken for a version that was replaced, but it receives nothing, either.
        match self.guard.check() {
            Err(denied) if frame.is_ready() => Poll::Ready(Some(Err(denied))),
            _ => frame,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn within<T>(
    allowed: Duration,
    step: HttpStep,
    work: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    timeout(allowed, work).await.unwrap_or(Err(HttpError::Timeout { step, allowed }))
}

async fn exchange(
    stream: Stream,
    request: Request<HttpBody>,
    guard: AccessGuard,
) -> Result<Response<HttpBody>, HttpError> {
    let target = Arc::clone(&guard.target);
    let broken = |error: &hyper::Error| HttpError::Protocol(failure_text(&target, error));
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(BUFFER_SIZE)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    // The task ends with the response's body, which also reports its error.
    let connection = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
    let response = sender.send_request(in_origin_form(request)).await.map_err(|error| broken(&error))?;
    Ok(response.map(|body| guard.wrap(ResponseBody { body, target, _connection: connection })))
}

/// Changes the URI to origin form, as servers expect it; the host is in the `host` header.
fn in_origin_form(mut request: Request<HttpBody>) -> Request<HttpBody> {
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    request
}

fn failure_text(target: &str, error: &hyper::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("the HTTP request to {target} failed: {error}{cause}")
}

/// A response's body, together with its connection.
struct ResponseBody {
    body: Incoming,
    target: Arc<str>,
    _connection: AbortOnDropHandle<()>,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map_err(|error| HttpError::Protocol(failure_text(&self.target, &error)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
