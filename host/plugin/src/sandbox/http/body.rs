//! Bodies that end when they grow too large, when nothing more comes, and when the guest's call does.

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

use super::Ticket;
use crate::{HttpBody, HttpError, HttpStep};

/// What the guest sends.
pub(super) struct RequestBody {
    body: WasiBody,
    left: usize,
    allowed: usize,
    exceeded: Exceeded,
}

/// Whether a request's body was too large. The one who sends it only learns that it ended badly.
#[derive(Clone, Default)]
pub(super) struct Exceeded(Arc<AtomicBool>);

impl Exceeded {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl RequestBody {
    pub(super) fn new(body: WasiBody, allowed: usize) -> Self {
        Self { body, left: allowed, allowed, exceeded: Exceeded::default() }
    }

    pub(super) fn exceeded(&self) -> Exceeded {
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
            // A guest that drops the body before it is complete.
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(HttpError::Abandoned))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        match self.left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(left) => {
                self.left = left;
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

/// What the guest receives.
pub(super) struct ResponseBody {
    /// Empty once the body has ended, for whatever reason.
    open: Arc<Mutex<Option<Open>>>,
    left: usize,
    allowed: usize,
    patience: Duration,
    /// Runs while nothing comes.
    timer: Option<Pin<Box<Sleep>>>,
    is_complete: bool,
}

struct Open {
    body: HttpBody,
    ticket: Ticket,
}

impl ResponseBody {
    pub(super) fn new(body: HttpBody, ticket: Ticket, allowed: usize, patience: Duration) -> Self {
        let open = Arc::new(Mutex::new(Some(Open { body, ticket })));
        Self { open, left: allowed, allowed, patience, timer: None, is_complete: false }
    }

    /// Closes the body, and the connection that it comes from, when it is called.
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
                match this.left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                    Some(left) => {
                        this.left = left;
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
                let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(this.patience)));
                if timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                HttpError::Timeout { step: HttpStep::BetweenBytes, allowed: this.patience }
            }
        };
        let error = open.ticket.fail(problem);
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
    async fn a_request_s_body_passes_up_to_the_limit_and_fails_beyond_it() {
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
