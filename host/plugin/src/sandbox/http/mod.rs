//! `wasi:http/outgoing-handler`: a guest's requests, on their way through the [`Host`].
//!
//! Here is what holds whoever sends them: not in every call, not too many, not too large, not beyond the call that made them. Whether a
//! request may be sent at all, and how, is the host's.

mod body;

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

use super::SharedConsole;
use crate::load::one_line;
use crate::{Call, Host, HttpError, HttpTimeouts, Limits};
use body::{RequestBody, ResponseBody};

/// What a guest may write in one call to a request's body; it calls again for more.
const WRITE_PERMIT: usize = 64 << 10;

/// One instance's side of `wasi:http`.
pub(crate) struct Http {
    pub(super) context: WasiHttpCtx,
    pub(super) hooks: Hooks,
}

pub(super) struct Hooks {
    host: Arc<dyn Host>,
    console: SharedConsole,
    body_limit: usize,
    most_requests: u32,
    requests: Arc<Semaphore>,
    /// Made by the first request of a call, triggered at the call's end.
    end_of_call: Option<CancellationToken>,
}

impl Http {
    pub(super) fn new(host: Arc<dyn Host>, console: SharedConsole, limits: &Limits) -> Self {
        let hooks = Hooks {
            host,
            console,
            body_limit: limits.http_body,
            most_requests: limits.http_requests,
            requests: Arc::new(Semaphore::new(limits.http_requests as usize)),
            end_of_call: None,
        };
        Self { context: WasiHttpCtx::new(), hooks }
    }

    /// The guest's call is over, and with it what is still under way.
    pub(crate) fn end_call(&mut self) {
        if let Some(end) = self.hooks.end_of_call.take() {
            end.cancel();
        }
    }
}

impl Hooks {
    /// Takes a place among the requests under way.
    fn admit(&mut self, request: &Request<WasiBody>) -> Result<Ticket, Error> {
        let call = self.console.lock().call().clone();
        let permit = Arc::clone(&self.requests).try_acquire_owned().ok();
        let refusal = match &call {
            Call::Instantiate | Call::Describe | Call::IndexValues(_) => {
                Some(HttpError::NotNow { call: call.name() })
            }
            Call::Reconcile(_) | Call::Observe(_) if permit.is_none() => {
                Some(HttpError::TooMany { allowed: self.most_requests })
            }
            // Its answer is a connection for anything.
            _ if request.method() == Method::CONNECT => Some(HttpError::Method(Method::CONNECT.to_string())),
            _ if announced_size(request) > self.body_limit => {
                Some(HttpError::RequestBody { allowed: self.body_limit })
            }
            _ => None,
        };
        let mut ticket = Ticket {
            host: Arc::clone(&self.host),
            console: Arc::clone(&self.console),
            call,
            result: Err(HttpError::Abandoned),
            _permit: permit,
        };
        match refusal {
            Some(refusal) => Err(ticket.fail(refusal)),
            None => Ok(ticket),
        }
    }
}

fn announced_size(request: &Request<WasiBody>) -> usize {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or_default()
}

type Answer = (Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Answer, Error>> + Send> {
        let admitted = self.admit(&request);
        let end_of_call = self.end_of_call.get_or_insert_default().clone();
        let timeouts = timeouts(options);
        let body_limit = self.body_limit;
        Box::new(async move {
            let mut ticket = admitted?;
            let (head, body) = request.into_parts();
            let body = RequestBody::new(body, body_limit);
            let too_large = body.exceeded();
            let request = Request::from_parts(head, body.boxed_unsync());
            let (host, call) = (Arc::clone(&ticket.host), ticket.call.clone());
            let sent = end_of_call.run_until_cancelled(host.http_send(&call, request, &timeouts)).await;
            let response = match sent.unwrap_or(Err(HttpError::Abandoned)) {
                Ok(response) => response,
                Err(_) if too_large.get() => {
                    return Err(ticket.fail(HttpError::RequestBody { allowed: body_limit }));
                }
                Err(error) => return Err(ticket.fail(error)),
            };
            ticket.result = Ok(response.status());
            let (head, body) = response.into_parts();
            if body.size_hint().lower() > body_limit as u64 {
                return Err(ticket.fail(HttpError::ResponseBody { allowed: body_limit }));
            }
            let body = ResponseBody::new(body, ticket, body_limit, timeouts.between_bytes);
            let close = body.closer();
            let until_the_end: Box<dyn Future<Output = _> + Send> = Box::new(async move {
                end_of_call.cancelled().await;
                close();
                Ok(())
            });
            Ok((Response::from_parts(head, body.boxed_unsync()), until_the_end))
        })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        WRITE_PERMIT
    }
}

/// The guest may ask for less patience than the host has, not for more.
fn timeouts(options: Option<RequestOptions>) -> HttpTimeouts {
    let most = HttpTimeouts::default();
    let options = options.unwrap_or_default();
    HttpTimeouts {
        connect: options.connect_timeout.unwrap_or(most.connect).min(most.connect),
        first_byte: options.first_byte_timeout.unwrap_or(most.first_byte).min(most.first_byte),
        between_bytes: options.between_bytes_timeout.unwrap_or(most.between_bytes).min(most.between_bytes),
    }
}

/// One request's place among those under way, until its response has been read or dropped. Then the host is told how it ended, once.
struct Ticket {
    host: Arc<dyn Host>,
    console: SharedConsole,
    call: Call,
    result: Result<StatusCode, HttpError>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Ticket {
    /// Takes down why the request failed; what comes back is for the guest.
    fn fail(&mut self, error: HttpError) -> Error {
        if error != HttpError::Abandoned {
            self.console.lock().remark(&one_line(&error.to_string()));
        }
        let for_the_guest = error_code(&error);
        self.result = Err(error);
        for_the_guest
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.host.http_ended(&self.call, self.result.as_ref().copied());
    }
}

fn error_code(error: &HttpError) -> Error {
    use crate::HttpStep;
    match error {
        HttpError::Denied(_) | HttpError::NotNow { .. } => Error::HttpRequestDenied,
        HttpError::Url(_) => Error::HttpRequestUriInvalid,
        HttpError::Method(_) => Error::HttpRequestMethodInvalid,
        HttpError::NotFound(_) => Error::DnsError { rcode: None, info_code: None },
        HttpError::Address(_) => Error::DestinationIpProhibited,
        HttpError::Unreachable(_) => Error::ConnectionRefused,
        HttpError::Tls { certificate: true, .. } => Error::TlsCertificateError,
        HttpError::Tls { .. } => Error::TlsProtocolError,
        HttpError::Broken(_) => Error::HttpProtocolError,
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
