//! The server as a tower service: reads a request whole, authenticates it, and answers it.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::request::Parts;
use http::{Method, Request, Response, Version};
use http_body_util::{BodyExt, Limited};
use pilothouse_listen::{ClientCertificate, RequestGuard};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::handle;
use super::inner::ServerInner;
use crate::request::{Query, body, path};
use crate::respond::{self, ResponseBody};
use crate::status::{ResourceRef, Status};
use crate::user::User;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The server as a tower service over HTTP requests. It is always ready and never fails: errors are HTTP responses.
#[derive(Clone)]
pub struct ApiService {
    inner: Arc<ServerInner>,
    /// The user of requests without credentials, or `None` if such requests are refused.
    default_user: Option<Arc<User>>,
    /// Checks requests over a socket; `None` for requests within the process.
    guard: Option<RequestGuard>,
    shutdown: CancellationToken,
}

/// How long a client on a socket may take to send a request body, as in kube-apiserver.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of bytes of a refused request's body that are read before the response.
const DISCARD_LIMIT: usize = 16 << 20;
/// How long the client may take to send them.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

impl ApiService {
    /// Returns a service for requests of `user` within the process, which is trusted.
    pub(super) fn in_process(inner: Arc<ServerInner>, user: Arc<User>) -> Self {
        Self { inner, default_user: Some(user), guard: None, shutdown: CancellationToken::new() }
    }

    /// Returns a service for requests over a socket, which may come from any program, web pages included.
    pub(super) fn over_http(
        inner: Arc<ServerInner>,
        guard: RequestGuard,
        shutdown: CancellationToken,
    ) -> Self {
        let default_user = inner.state.access.user_without_credentials().cloned();
        Self { inner, default_user, guard: Some(guard), shutdown }
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
        let service = self.clone();
        Box::pin(async move {
            let answer = AssertUnwindSafe(service.answer(request)).catch_unwind().await;
            Ok(answer.unwrap_or_else(|panic| {
                // Panics poison no lock, and a table changes in one step, so the server can continue.
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                tracing::error!(panic = text, "a request handler panicked; the request is answered with 500");
                respond::failure(&Status::internal(format!("the request handler panicked: {text}")))
            }))
        })
    }
}

impl ApiService {
    async fn answer<B>(self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let inner = Arc::clone(&self.inner);
        let is_head = request.method() == Method::HEAD;
        let (parts, content) = request.into_parts();
        let mut content = pin!(content);
        // Over HTTP/1.1, hyper closes the connection after the response, and a client that expects 100 Continue must not get it.
        let is_http_2 = parts.version == Version::HTTP_2 && self.guard.is_some();
        let answer = match self.read(parts, content.as_mut()).await {
            Ok(request) => handle::handle(&inner, &request).await,
            Err(status) => {
                if is_http_2 {
                    discard(content).await;
                }
                respond::failure(&status)
            }
        };
        // A listener leaves it out, too; clients within the process have none.
        if is_head { answer.map(|_| ResponseBody::full("")) } else { answer }
    }

    /// Authenticates a request and reads it whole. The body is read only after authentication.
    async fn read<B>(self, parts: Parts, content: Pin<&mut B>) -> Result<crate::request::Request, Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let path = parts.uri.path();
        if let Some(guard) = &self.guard {
            guard.check(&parts).map_err(|refusal| forbidden(&refusal.to_string()))?;
        }
        let access = &self.inner.state.access;
        let certificate = parts.extensions.get::<ClientCertificate>();
        let sender = access.authenticate(certificate, &parts.headers, path, self.default_user.as_ref())?;
        let body = match &self.guard {
            Some(_) => tokio::time::timeout(BODY_TIMEOUT, collect(content)).await.map_err(|_| {
                Status::bad_request(format!("the request's body did not arrive within {BODY_TIMEOUT:?}"))
            })??,
            None => collect(content).await?,
        };
        Ok(crate::request::Request {
            target: path::parse(path),
            query: Query::parse(parts.uri.query().unwrap_or_default())?,
            uri: parts.uri,
            method: parts.method,
            headers: parts.headers,
            body,
            sender,
            shutdown: self.shutdown,
        })
    }
}

/// Reads what is left of the body of a request that is refused, within bounds. If a body is dropped before the response was sent, hyper resets
/// its HTTP/2 stream, and the client sees a broken stream in place of the response.
async fn discard<B>(mut content: Pin<&mut B>)
where
    B: http_body::Body<Data = Bytes>,
{
    let read = async {
        let mut left = DISCARD_LIMIT;
        while let Some(Ok(frame)) = content.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(1, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, read).await;
}

async fn collect<B>(content: Pin<&mut B>) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    let collected = Limited::new(content, body::LIMIT).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            Status::request_entity_too_large(&format!("limit is {}", body::LIMIT))
        } else {
            Status::bad_request(format!("the request's body could not be read: {error}"))
        }
    })?;
    Ok(collected.to_bytes())
}

fn forbidden(problem: &str) -> Status {
    Status::forbidden(ResourceRef { group: "", plural: "", kind: "" }, "", problem)
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiService").finish_non_exhaustive()
    }
}
