//! Intercepts every request between a host and the server: counts it, records it, and applies the faults of the plan.
//!
//! Each host has gates of its own. When its process ends, they answer nothing any more: the requests that are under way have no effect on
//! the host, and new ones none on the server.
//!
//! `request_gate`: the requests of plugins and of the host itself. `watch_gate`: the lists and watches of the informers. `interference`: the
//! change of another client between two requests. `responses` reads and makes responses.

mod interference;
mod request_gate;
mod responses;
mod watch_gate;

use std::future::poll_fn;
use std::io;
use std::pin::pin;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use pilothouse_apiserver::{ApiService, ResponseBody};
use tower::ServiceExt;

use super::mirror::Change;
use super::shared::Shared;

pub(crate) use interference::OTHER_CLIENT;
pub(super) use request_gate::RequestGate;
pub(super) use responses::answer;
pub(super) use watch_gate::WatchGate;

/// The body of an answer.
type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// Returns a body of these bytes.
fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Returns a body of the server as it is.
fn unchanged(body: ResponseBody) -> AnswerBody {
    body.map_err(|never| match never {}).boxed_unsync()
}

/// Sends a request to the server.
async fn forward<B>(server: ApiService, request: Request<B>) -> Response<ResponseBody>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match server.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Sends a request to the server. Returns what the server committed while it worked on the request, and nothing that its controllers did.
pub(super) async fn attributed<B>(
    shared: &Shared,
    server: ApiService,
    request: Request<B>,
) -> (Response<ResponseBody>, Vec<Change>)
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut work = pin!(forward(server, request));
    let mut commits = Vec::new();
    let response = poll_fn(|context| {
        // Records what the controllers have done.
        drop(shared.lock());
        let polled = work.as_mut().poll(context);
        commits.extend(shared.take_commits());
        polled
    })
    .await;
    (response, commits)
}
