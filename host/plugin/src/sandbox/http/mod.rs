//! `wasi:http/outgoing-handler`: a guest's HTTP requests, which the [`Host`] sends.
//!
//! This module enforces what holds for every implementation of `Host`: in which calls requests are available, how many may be in flight,
//! how large they may be, and that they end with the call that made them. The host decides whether a request may be sent at all, and how.

mod body;
mod messages;

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

use super::SharedConsole;
use crate::load::one_line;
use crate::{Call, Host, HttpError, HttpTimeouts, InstanceLimits};
use body::{RequestBody, ResponseBody};

pub(crate) use messages::replace_in_linker;

/// Bytes that a guest may write to a request's body in one call; it calls again for more.
const WRITE_PERMIT: usize = 16 << 10;
/// Bytes of a body that were written and not yet sent, at most: two calls' worth.
pub(super) const BODY_BUFFER: usize = 2 * WRITE_PERMIT;
/// Upper bound of a response's head in bytes, and of what is read of its body ahead of the guest. The [`Host`] enforces it.
pub(super) const READ_AHEAD: usize = 64 << 10;

/// The state of `wasi:http` of one instance.
pub(crate) struct Http {
    pub(super) context: WasiHttpCtx,
    pub(super) hooks: Hooks,
}

pub(super) struct Hooks {
    host: Arc<dyn Host>,
    console: SharedConsole,
    body_limit: usize,
    max_requests: u32,
    requests: Arc<Semaphore>,
    /// Created by the first request of a call, cancelled at the end of the call.
    end_of_call: Option<CancellationToken>,
}

impl Http {
    pub(super) fn new(host: Arc<dyn Host>, console: SharedConsole, limits: &InstanceLimits) -> Self {
        let hooks = Hooks {
            host,
            console,
            body_limit: limits.http_body,
            max_requests: limits.http_requests,
            requests: Arc::new(Semaphore::new(limits.http_requests as usize)),
            end_of_call: None,
        };
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(messages::MAX_FIELDS);
        Self { context, hooks }
    }

    /// Ends the guest's call and the requests that are still in flight.
    pub(crate) fn end_call(&mut self) {
        if let Some(end) = self.hooks.end_of_call.take() {
            end.cancel();
        }
    }
}

impl Hooks {
    /// Checks a request, and counts it among those in flight.
    fn admit(&mut self, request: &Request<WasiBody>) -> Result<InFlightRequest, Error> {
        let call = self.console.lock().call().clone();
        let permit = Arc::clone(&self.requests).try_acquire_owned().ok();
        let refusal = match &call {
            Call::Instantiate | Call::Describe | Call::IndexValues(_) => {
                Some(HttpError::UnavailableInCall { call: call.name() })
            }
            Call::Reconcile(_) | Call::Observe(_) if permit.is_none() => {
                Some(HttpError::TooMany { allowed: self.max_requests })
            }
            // A successful CONNECT would give the guest a tunnel for any protocol.
            _ if request.method() == Method::CONNECT => Some(HttpError::Method(Method::CONNECT.to_string())),
            _ if declared_size(request) > self.body_limit => {
                Some(HttpError::RequestBody { allowed: self.body_limit })
            }
            _ => None,
        };
        let mut in_flight = InFlightRequest {
            host: Arc::clone(&self.host),
            console: Arc::clone(&self.console),
            call,
            result: Err(HttpError::Abandoned),
            _permit: permit,
        };
        match refusal {
            Some(refusal) => Err(in_flight.fail(refusal)),
            None => Ok(in_flight),
        }
    }
}

/// Returns the request's `Content-Length`, or 0 without a valid one.
fn declared_size(request: &Request<WasiBody>) -> usize {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or_default()
}

/// A response, and a future that ends with its connection.
type Answer = (Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Answer, Error>> + Send> {
        // A refused request is dropped here, and not when the guest looks at the result.
        let admitted = self.admit(&request).map(|in_flight| (in_flight, request));
        let end_of_call = self.end_of_call.get_or_insert_default().clone();
        let timeouts = timeouts(options);
        let body_limit = self.body_limit;
        Box::new(async move {
            let (mut in_flight, request) = admitted?;
            let (head, body) = request.into_parts();
            let body = RequestBody::new(body, body_limit);
            let too_large = body.exceeded();
            let request = Request::from_parts(head, body.boxed_unsync());
            let (host, call) = (Arc::clone(&in_flight.host), in_flight.call.clone());
            let sent = end_of_call.run_until_cancelled(host.http_send(&call, request, &timeouts)).await;
            let response = match sent.unwrap_or(Err(HttpError::Abandoned)) {
                Ok(response) => response,
                Err(_) if too_large.get() => {
                    return Err(in_flight.fail(HttpError::RequestBody { allowed: body_limit }));
                }
                Err(error) => return Err(in_flight.fail(error)),
            };
            in_flight.result = Ok(response.status());
            let (head, body) = response.into_parts();
            if body.size_hint().lower() > body_limit as u64 {
                return Err(in_flight.fail(HttpError::ResponseBody { allowed: body_limit }));
            }
            let body = ResponseBody::new(body, in_flight, body_limit, timeouts.between_bytes);
            let close = body.closer();
            let close_at_end_of_call: Box<dyn Future<Output = _> + Send> = Box::new(async move {
                end_of_call.cancelled().await;
                close();
                Ok(())
            });
            Ok((Response::from_parts(head, body.boxed_unsync()), close_at_end_of_call))
        })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        WRITE_PERMIT
    }
}

/// Returns the timeouts that the guest asks for, but none longer than the host's.
fn timeouts(options: Option<RequestOptions>) -> HttpTimeouts {
    let max = HttpTimeouts::default();
    let options = options.unwrap_or_default();
    HttpTimeouts {
        connect: options.connect_timeout.unwrap_or(max.connect).min(max.connect),
        first_byte: options.first_byte_timeout.unwrap_or(max.first_byte).min(max.first_byte),
        between_bytes: options.between_bytes_timeout.unwrap_or(max.between_bytes).min(max.between_bytes),
    }
}

/// A request that counts as in flight until its response has been read or dropped. Dropping this reports once to the host how it ended.
struct InFlightRequest {
    host: Arc<dyn Host>,
    console: SharedConsole,
    call: Call,
    result: Result<StatusCode, HttpError>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl InFlightRequest {
    /// Records and logs why the request failed. Returns the error code for the guest.
    fn fail(&mut self, error: HttpError) -> Error {
        if error != HttpError::Abandoned {
            self.console.lock().log_host_warning(&one_line(&error.to_string()));
        }
        let code = error_code(&error);
        self.result = Err(error);
        code
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.host.http_request_finished(&self.call, self.result.as_ref().copied());
    }
}

/// Returns the error code of `wasi:http` that is nearest to the error.
fn error_code(error: &HttpError) -> Error {
    use crate::HttpStep;
    match error {
        HttpError::Denied(_) | HttpError::UnavailableInCall { .. } => Error::HttpRequestDenied,
        HttpError::Url(_) => Error::HttpRequestUriInvalid,
        HttpError::Method(_) => Error::HttpRequestMethodInvalid,
        HttpError::NotFound(_) => Error::DnsError { rcode: None, info_code: None },
        HttpError::ForbiddenAddress(_) => Error::DestinationIpProhibited,
        HttpError::Unreachable(_) => Error::ConnectionRefused,
        HttpError::Tls { certificate: true, .. } => Error::TlsCertificateError,
        HttpError::Tls { .. } => Error::TlsProtocolError,
        HttpError::Protocol(_) => Error::HttpProtocolError,
        HttpError::Timeout { step: HttpStep::Connect, .. } => Error::ConnectionTimeout,
        HttpError::Timeout { step: HttpStep::FirstByte, .. } => Error::HttpResponseTimeout,
        HttpError::Timeout { step: HttpStep::BetweenBytes, .. } => Error::ConnectionReadTimeout,
        HttpError::TooMany { .. } => Error::ConnectionLimitReached,
        HttpError::RequestBody { allowed } => Error::HttpRequestBodySize(Some(*allowed as u64)),
        HttpError::ResponseBody { allowed } => Error::HttpResponseBodySize(Some(*allowed as u64)),
        HttpError::Abandoned => Error::ConnectionTerminated,
    }
}

#[cfg(test)]
mod tests;
