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
use crate::{HttpBody, StandIn};

#[test]
fn a_guest_gets_less_patience_than_the_host_has_and_never_more() {
    let most = HttpTimeouts::default();
    assert_eq!(timeouts(None), most);
    let asked = RequestOptions {
        connect_timeout: Some(Duration::from_millis(7)),
        first_byte_timeout: Some(Duration::from_secs(3600)),
        between_bytes_timeout: None,
    };
    assert_eq!(timeouts(Some(asked)), HttpTimeouts { connect: Duration::from_millis(7), ..most });
}

/// An instance that observes, and may have two requests under way.
fn stage() -> (Arc<StandIn>, Hooks) {
    let stand_in = Arc::new(StandIn::new("{}"));
    let host: Arc<dyn Host> = Arc::<StandIn>::clone(&stand_in);
    let console = Console::shared(Arc::clone(&host), 1024);
    console.lock().begin(Call::Observe("w".into()));
    let limits = Limits { http_requests: 2, ..Limits::default() };
    (stand_in, Http::new(host, console, &limits).hooks)
}

fn request() -> Request<WasiBody> {
    Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync())
}

fn response(ticket: Ticket, body: HttpBody) -> ResponseBody {
    ResponseBody::new(body, ticket, 100, Duration::from_secs(10))
}

fn hello() -> HttpBody {
    Full::new(Bytes::from("hello")).map_err(|never| match never {}).boxed_unsync()
}

#[tokio::test]
async fn a_request_has_its_place_until_its_response_was_read_or_dropped() {
    let (host, mut hooks) = stage();
    let first = hooks.admit(&request()).expect("a place");
    let second = hooks.admit(&request()).expect("the second place");
    let refused = hooks.admit(&request()).err();
    assert!(matches!(refused, Some(Error::ConnectionLimitReached)), "{refused:?}");
    let said = host.lines();
    assert!(said[0].starts_with("exceeded limits.httpRequests of 2: read or drop a response"), "{said:?}");

    // Its head is there; its body holds the place.
    let mut first = response(first, hello());
    assert!(hooks.admit(&request()).is_err());
    first.frame().await.expect("a piece").expect("hello");
    assert!(hooks.admit(&request()).is_err());
    assert!(first.frame().await.is_none(), "all of it was read");
    let third = hooks.admit(&request()).expect("the place of the first");
    assert!(hooks.admit(&request()).is_err());
    drop(response(second, hello()));
    let fourth = hooks.admit(&request()).expect("the place of the second");
    drop((third, fourth));
}

/// A body of pieces that come so long after each other, and then nothing.
struct Drips {
    pieces: VecDeque<(Duration, &'static str)>,
    next: Option<Pin<Box<Sleep>>>,
}

impl Body for Drips {
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
async fn a_body_that_stalls_is_given_up_and_one_that_only_drips_is_not() {
    let (host, mut hooks) = stage();
    let ticket = hooks.admit(&request()).expect("a place");
    let almost = Duration::from_secs(9);
    let pieces = [(almost, "a"), (almost, "b"), (almost, "c")].into();
    let mut body = response(ticket, Drips { pieces, next: None }.boxed_unsync());
    for piece in ["a", "b", "c"] {
        let frame = body.frame().await.expect("a piece").expect("in time");
        assert_eq!(frame.data_ref().expect("data"), piece);
    }
    let since = Instant::now();
    let stalled = body.frame().await.expect("an end").err();
    assert!(matches!(stalled, Some(Error::ConnectionReadTimeout)), "{stalled:?}");
    assert_eq!(since.elapsed().as_secs(), 10);
    assert_eq!(host.lines(), ["an HTTP request waited 10s for more of the response's body"]);
    // It holds no place any more, and nothing comes of it.
    let places = [hooks.admit(&request()), hooks.admit(&request())];
    assert!(places.iter().all(Result::is_ok));
    assert!(body.frame().await.is_some_and(|piece| piece.is_err()));
}
