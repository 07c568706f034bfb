//! Sends one request and reads its response. Each request has a connection of its own; every step has a time limit, and every body a size.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::connect::{connect, unreachable};
use crate::error::{Problem, RegistryError};
use crate::origin::{AddressScope, Location};
use crate::tls::Tls;

/// Limit in bytes for a response's head.
const MAX_HEAD: usize = 64 << 10;

/// Time limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection, with the lookup of the name and TLS.
    pub connect: Duration,
    /// For the response's head, and for each part of its body.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), idle: Duration::from_secs(30) }
    }
}

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingRequest {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl OutgoingRequest {
    pub(crate) fn get(accept: &str) -> Self {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(accept) {
            headers.insert(http::header::ACCEPT, value);
        }
        Self { method: Method::GET, headers, body: Bytes::new() }
    }
}

/// A response whose body has not been read.
pub(crate) struct PendingResponse {
    response: Response<Incoming>,
    location: Location,
    idle: Duration,
    _connection: AbortOnDropHandle<()>,
}

/// Sends a request. Returns once the response's head has arrived.
pub(crate) async fn send(
    outgoing: &OutgoingRequest,
    location: &Location,
    scope: AddressScope,
    tls: &Tls,
    timeouts: Timeouts,
) -> Result<PendingResponse, RegistryError> {
    let origin = &location.origin;
    let late = || {
        RegistryError::new(
            Problem::Timeout,
            format!(
                "{origin} does not respond in time; check that the registry is well and that this machine may reach it"
            ),
        )
    };
    let stream = timeout(timeouts.connect, connect(origin, scope, tls)).await.map_err(|_| late())??;
    let broken = |error: hyper::Error| unreachable(origin, &error);
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let connection = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
    let mut request = Request::new(Full::new(outgoing.body.clone()));
    *request.method_mut() = outgoing.method.clone();
    *request.uri_mut() = location.path.clone().into();
    *request.headers_mut() = outgoing.headers.clone();
    let host = origin.to_string();
    let host = host.split_once("://").map_or("", |(_, host)| host);
    let host = HeaderValue::from_str(host).map_err(|error| {
        RegistryError::new(
            Problem::Protocol,
            format!("no request to {origin}: its host is invalid: {error}; correct the registry's name"),
        )
    })?;
    request.headers_mut().insert(HOST, host);
    request
        .headers_mut()
        .insert(USER_AGENT, HeaderValue::from_static(concat!("pilothouse/", env!("CARGO_PKG_VERSION"))));
    let response =
        timeout(timeouts.idle, sender.send_request(request)).await.map_err(|_| late())?.map_err(broken)?;
    Ok(PendingResponse { response, location: location.clone(), idle: timeouts.idle, _connection: connection })
}

impl PendingResponse {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.response.headers().get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the next part of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, RegistryError> {
        let origin = &self.location.origin;
        loop {
            let frame = timeout(self.idle, self.response.body_mut().frame()).await.map_err(|_| {
                RegistryError::new(
                    Problem::Timeout,
                    format!("{origin} stopped in the middle of a response; the next attempt may succeed"),
                )
            })?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(unreachable(origin, &format_args!("the response broke off: {error}")));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Reads the whole body, which must have at most `limit` bytes. `what` is for errors.
    pub(crate) async fn body(mut self, limit: usize, what: &str) -> Result<Vec<u8>, RegistryError> {
        let mut body = Vec::new();
        while let Some(data) = self.next().await? {
            if body.len() + data.len() > limit {
                let origin = &self.location.origin;
                return Err(RegistryError::new(
                    Problem::TooLarge,
                    format!(
                        "{origin} sends more than {limit} bytes as {what}; check what is in the repository"
                    ),
                ));
            }
            body.extend_from_slice(&data);
        }
        Ok(body)
    }
}
