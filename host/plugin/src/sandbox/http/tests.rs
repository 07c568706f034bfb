//! Limits and timeouts of HTTP requests.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{Empty, Full};
use tokio::time::{Instant, Sleep, sleep};

use super::super::console::Console;
use super::*;
use crate::{HttpBody, StubHost};

#[test]
fn a_guest_may_shorten_the_hosts_timeouts_but_not_extend_them() {
    let max = HttpTimeouts::default();
    assert_eq!(timeouts(None), max);
    let requested = RequestOptions {
        connect_timeout: Some(Duration::from_millis(7)),
        first_byte_timeout: Some(Duration::from_secs(3600)),
        between_bytes_timeout: None,
    };
    assert_eq!(timeouts(Some(requested)), HttpTimeouts { connect: Duration::from_millis(7), ..max });
}

/// The hooks of an instance in an `observe` call that may have two requests in flight.
fn hooks_for_two_requests() -> (Arc<StubHost>, Hooks) {
    let stub = Arc::new(StubHost::new("{}"));
    let host: Arc<dyn Host> = Arc::<StubHost>::clone(&stub);
    let console = Console::shared(Arc::clone(&host), 1024);
    console.lock().begin_call(Call::Observe("w".into()));
    let limits = InstanceLimits { http_requests: 2, ..InstanceLimits::default() };
    (stub, Http::new(host, console, &limits).hooks)
}

fn request() -> Request<WasiBody> {
    Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync())
}

fn response(in_flight: InFlightRequest, body: HttpBody) -> ResponseBody {
    ResponseBody::new(body, in_flight, 100, Duration::from_secs(10))
}

fn hello() -> HttpBody {
    Full::new(Bytes::from("hello")).map_err(|never| match never {}).boxed_unsync()
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_response_was_read_or_dropped() {
    let (host, mut hooks) = hooks_for_two_requests();
    let first = hooks.admit(&request()).expect("the first of two");
    let second = hooks.admit(&request()).expect("the second of two");
    let refused = hooks.admit(&request()).err();
    assert!(matches!(refused, Some(Error::ConnectionLimitReached)), "{refused:?}");
    let lines = host.lines();
    assert!(lines[0].starts_with("exceeded limits.httpRequests of 2: read or drop a response"), "{lines:?}");

    // The response's head has arrived; its body keeps the request in flight.
    let mut first = response(first, hello());
    assert!(hooks.admit(&request()).is_err());
    first.frame().await.expect("a piece").expect("hello");
    assert!(hooks.admit(&request()).is_err());
    assert!(first.frame().await.is_none(), "all of it was read");
    let third = hooks.admit(&request()).expect("the first has ended");
    assert!(hooks.admit(&request()).is_err());
    drop(response(second, hello()));
    let fourth = hooks.admit(&request()).expect("the second was dropped");
    drop((third, fourth));
}

/// A body whose pieces each come after a delay, and which then stalls.
struct SlowBody {
    pieces: VecDeque<(Duration, &'static str)>,
    next: Option<Pin<Box<Sleep>>>,
}

impl Body for SlowBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let Some((wait, piece)) = self.pieces.front().copied() else { return Poll::Pending };
        let next = self.next.get_or_insert_with(|| Box::pin(sleep(wait)));
        if next.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.next = None;
        self.pieces.pop_front();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(piece)))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_is_read_to_its_end_and_a_stalled_one_is_abandoned() {
    let (host, mut hooks) = hooks_for_two_requests();
    let in_flight = hooks.admit(&request()).expect("the first of two");
    let delay = Duration::from_secs(9);
    let pieces = [(delay, "a"), (delay, "b"), (delay, "c")].into();
    let mut body = response(in_flight, SlowBody { pieces, next: None }.boxed_unsync());
    for piece in ["a", "b", "c"] {
        let frame = body.frame().await.expect("a piece").expect("in time");
        assert_eq!(frame.data_ref().expect("data"), piece);
    }
    let since = Instant::now();
    let stalled = body.frame().await.expect("an end").err();
    assert!(matches!(stalled, Some(Error::ConnectionReadTimeout)), "{stalled:?}");
    assert_eq!(since.elapsed().as_secs(), 10);
    assert_eq!(host.lines(), ["an HTTP request waited 10s for more of the response's body"]);
    // The request is no longer in flight, and its body stays in error.
    let admitted = [hooks.admit(&request()), hooks.admit(&request())];
    assert!(admitted.iter().all(Result::is_ok));
    assert!(body.frame().await.is_some_and(|piece| piece.is_err()));
}
