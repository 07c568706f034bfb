//! Bodies of HTTP messages that end with an error when they grow too large, when no data comes for too long, and when the guest's call
//! ends.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};
use wasmtime_wasi_http::{Error, WasiBody};

use super::InFlightRequest;
use crate::{HttpBody, HttpError, HttpStep};

/// The body of a request, which the guest sends.
pub(super) struct RequestBody {
    body: WasiBody,
    /// Bytes that may still come.
    remaining: usize,
    allowed: usize,
    exceeded: SizeExceeded,
}

/// A flag that says whether a request's body was too large. The client that sends the body only learns that it ended with an error.
#[derive(Clone, Default)]
pub(super) struct SizeExceeded(Arc<AtomicBool>);

impl SizeExceeded {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl RequestBody {
    pub(super) fn new(body: WasiBody, allowed: usize) -> Self {
        Self { body, remaining: allowed, allowed, exceeded: SizeExceeded::default() }
    }

    pub(super) fn exceeded(&self) -> SizeExceeded {
        self.exceeded.clone()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            // The guest dropped the body before it was complete.
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(HttpError::Abandoned))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        match self.remaining.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(remaining) => {
                self.remaining = remaining;
                Poll::Ready(Some(Ok(frame)))
            }
            None => {
                self.exceeded.0.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(HttpError::RequestBody { allowed: self.allowed })))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response, which the guest receives.
pub(super) struct ResponseBody {
    /// `None` once the body has ended, for whatever reason.
    open: Arc<Mutex<Option<OpenBody>>>,
    /// Bytes that may still come.
    remaining: usize,
    allowed: usize,
    /// How long the guest waits for the next piece.
    idle_timeout: Duration,
    /// Runs while a piece is awaited.
    timer: Option<Pin<Box<Sleep>>>,
    is_complete: bool,
}

struct OpenBody {
    body: HttpBody,
    request: InFlightRequest,
}

impl ResponseBody {
    pub(super) fn new(
        body: HttpBody,
        request: InFlightRequest,
        allowed: usize,
        idle_timeout: Duration,
    ) -> Self {
        let open = Arc::new(Mutex::new(Some(OpenBody { body, request })));
        Self { open, remaining: allowed, allowed, idle_timeout, timer: None, is_complete: false }
    }

    /// Returns a function that closes the body and its connection.
    pub(super) fn closer(&self) -> impl FnOnce() + Send + use<> {
        let open = Arc::clone(&self.open);
        move || drop(open.lock().take())
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if this.is_complete {
            return Poll::Ready(None);
        }
        let mut slot = this.open.lock();
        let Some(open) = slot.as_mut() else { return Poll::Ready(Some(Err(Error::ConnectionTerminated))) };
        let problem = match Pin::new(&mut open.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                this.timer = None;
                match this.remaining.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                    Some(remaining) => {
                        this.remaining = remaining;
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    None => HttpError::ResponseBody { allowed: this.allowed },
                }
            }
            Poll::Ready(Some(Err(error))) => error,
            Poll::Ready(None) => {
                this.is_complete = true;
                *slot = None;
                return Poll::Ready(None);
            }
            Poll::Pending => {
                let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(this.idle_timeout)));
                if timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                HttpError::Timeout { step: HttpStep::BetweenBytes, allowed: this.idle_timeout }
            }
        };
        let error = open.request.fail(problem);
        *slot = None;
        Poll::Ready(Some(Err(error)))
    }

    fn size_hint(&self) -> SizeHint {
        self.open.lock().as_ref().map(|open| open.body.size_hint()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn a_request_body_passes_up_to_the_limit_and_fails_beyond_it() {
        let body = |size: usize| {
            let body = Full::new(Bytes::from(vec![b'x'; size])).map_err(|never| match never {});
            RequestBody::new(body.boxed_unsync(), 10)
        };
        let within = body(10);
        let exceeded = within.exceeded();
        assert_eq!(within.collect().await.expect("within").to_bytes().len(), 10);
        assert!(!exceeded.get());
        let beyond = body(11);
        let exceeded = beyond.exceeded();
        assert_eq!(beyond.collect().await.err(), Some(HttpError::RequestBody { allowed: 10 }));
        assert!(exceeded.get());
    }
}
