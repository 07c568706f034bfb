//! How much of the host's memory and time the readers of the status port take together.
//!
//! A response that a client does not take stays in memory. So the number of large responses and of followers is bounded, for one client and
//! for all, and a large response is passed to the connection in small parts, whose time [`LIMITS`] bounds. Probes take no part in this.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pilothouse_listen::{
    ClientNetwork, ConnectionAddresses, ConnectionLimits, EndlessResponse, ReservedConnection,
    ResponseTimeouts,
};
use tokio::time::timeout;

use super::fair_permits::{Client, FairPermit, FairPermits, Shares};

/// The limits of connections. Among them is one for each client that follows the logs, and one for each page that is brought up to date.
pub(super) const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 256,
    connections_per_client: 128,
    reserved: 16,
    streams: 16,
    // No request has a body that is read.
    request_window: 65_535,
    idle_timeout: Duration::from_secs(30),
    response: Some(ResponseTimeouts { part: Duration::from_secs(30), whole: Duration::from_secs(120) }),
};
/// The paths that are also answered on reserved connections, and need no token: the probes of the kubelet send none. They say nothing about plugins while
/// the host is ready.
pub(super) const PROBE_PATHS: [&str; 2] = ["/healthz", "/readyz"];
/// The large responses that are computed or sent at the same time.
const LARGE_RESPONSES: Shares = Shares { total: 8, per_client: 4, requests_per_client: 64 };
/// The clients that follow the logs.
const FOLLOWERS: Shares = Shares { total: 64, per_client: 32, requests_per_client: 32 };
/// Why a request without a permit for a large response is refused.
pub(super) const LARGE_RESPONSES_ARE_SENT: &str = "large responses are being sent";
/// How long a request waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The size of the parts in which large responses are passed to the connection, in bytes.
const PART_SIZE: usize = 16 << 10;

/// The readers of the status port.
pub(super) struct Load {
    large_responses: FairPermits,
    followers: FairPermits,
}

impl Default for Load {
    fn default() -> Self {
        Self { large_responses: FairPermits::new(LARGE_RESPONSES), followers: FairPermits::new(FOLLOWERS) }
    }
}

impl Load {
    /// Waits until a large response may be computed; `None` if that takes too long.
    pub(super) async fn large_response(&self, client: Client) -> Option<FairPermit> {
        timeout(MAX_WAIT, self.large_responses.acquire(client)).await.ok().flatten()
    }

    /// Allows a client to follow the logs; `None` if too many do already.
    pub(super) fn follower(&self, client: Client) -> Option<FairPermit> {
        self.followers.try_acquire(client)
    }
}

/// Returns the client of a request.
pub(super) fn client_of(extensions: &axum::http::Extensions) -> Client {
    extensions.get::<ConnectionAddresses>().map(|addresses| ClientNetwork::of(addresses.client.ip()))
}

/// Returns the refusal of a request that there is no room for.
pub(super) fn too_many(what: &str) -> Response {
    let text = format!("too many {what}; try again later\n");
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "10")], text).into_response()
}

/// Answers only probes if all ordinary connections are in use.
pub(super) async fn keep_room_for_probes(request: Request, next: Next) -> Response {
    let is_reserved = request.extensions().get::<ReservedConnection>().is_some();
    if is_reserved && !PROBE_PATHS.contains(&request.uri().path()) {
        return too_many("connections are open; only probes are answered");
    }
    next.run(request).await
}

/// Bounds the number of responses that may be large, and passes them on in parts.
pub(super) async fn limit_large_responses(
    State(load): State<Arc<Load>>,
    request: Request,
    next: Next,
) -> Response {
    if !may_be_large(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    let client = client_of(request.extensions());
    let Some(permit) = load.large_response(client).await else { return too_many(LARGE_RESPONSES_ARE_SENT) };
    in_parts(next.run(request).await, permit).await
}

/// Whether the size of a response depends on the plugins. `/api/logs` and `/page/events` have limits of their own.
fn may_be_large(method: &Method, path: &str) -> bool {
    let is_small = PROBE_PATHS.contains(&path) || path == "/debug/host" || path.starts_with("/page/");
    matches!(*method, Method::GET | Method::HEAD) && path != "/api/logs" && !is_small
}

/// Keeps a permit until the body was passed to the connection, in parts that are copies: what the connection has not sent yet is one
/// part, and not the whole body.
async fn in_parts(response: Response, permit: FairPermit) -> Response {
    let (mut head, body) = response.into_parts();
    // The handlers return texts, which are complete.
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    if body.len() <= PART_SIZE {
        return Response::from_parts(head, Body::from(body));
    }
    set_length(&mut head.headers, body.len());
    let parts = futures::stream::unfold((body, 0, permit), |(body, position, permit)| async move {
        let end = body.len().min(position + PART_SIZE);
        let part = Bytes::copy_from_slice(&body[position..end]);
        (!part.is_empty()).then_some((Ok::<_, Infallible>(part), (body, end, permit)))
    });
    Response::from_parts(head, Body::from_stream(parts))
}

fn set_length(headers: &mut HeaderMap, length: usize) {
    headers.entry(header::CONTENT_LENGTH).or_insert(length.into());
}

/// Marks a response that ends only when its client leaves.
pub(super) fn endless(mut response: Response) -> Response {
    response.extensions_mut().insert(EndlessResponse);
    response
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::middleware::{from_fn, from_fn_with_state};
    use axum::routing::get;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::super::tests::{LOCAL, test_routes};
    use super::*;

    const SIZE: usize = 5 * PART_SIZE + 1;

    /// Returns routes with a large response.
    fn large_routes() -> Router {
        Router::new()
            .route("/metrics", get(async || "x".repeat(SIZE)))
            .route("/healthz", get(async || "ok"))
            .layer(from_fn_with_state(Arc::default(), limit_large_responses))
            .layer(from_fn(keep_room_for_probes))
    }

    fn request_of(client: u8, path: &str) -> Request {
        let addresses = ConnectionAddresses {
            server: ([10, 0, 0, 100], 9464).into(),
            client: ([10, 0, 0, client], 1024).into(),
            inode: 0,
        };
        Request::get(path)
            .header(LOCAL.0, LOCAL.1)
            .extension(addresses)
            .body(Body::empty())
            .expect("a request")
    }

    async fn get_as(routes: &Router, client: u8, path: &str) -> Response {
        let Ok(response) = routes.clone().oneshot(request_of(client, path)).await;
        response
    }

    #[tokio::test]
    async fn a_large_response_is_passed_on_in_parts() {
        let mut response = get_as(&large_routes(), 1, "/metrics").await;
        assert_eq!(response.headers()[header::CONTENT_LENGTH], SIZE.to_string());
        let mut length = 0;
        while let Some(frame) = response.body_mut().frame().await {
            let part = frame.expect("a part").into_data().expect("data");
            assert!(part.len() <= PART_SIZE, "{}", part.len());
            length += part.len();
        }
        assert_eq!(length, SIZE);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_take_no_large_responses_leave_some_to_others() {
        let routes = large_routes();
        let mut held = Vec::new();
        for _ in 0..LARGE_RESPONSES.per_client {
            held.push(get_as(&routes, 1, "/metrics").await);
        }
        assert!(held.iter().all(|response| response.status() == StatusCode::OK));
        assert_eq!(get_as(&routes, 1, "/metrics").await.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(get_as(&routes, 1, "/healthz").await.status(), StatusCode::OK);
        assert_eq!(get_as(&routes, 2, "/metrics").await.status(), StatusCode::OK);
        // The next one gets its turn when one is taken.
        let waiting = get_as(&routes, 1, "/metrics");
        let taken = async { held.pop().expect("a response").into_body().collect().await };
        let (response, taken) = tokio::join!(waiting, taken);
        assert_eq!((response.status(), taken.is_ok()), (StatusCode::OK, true));
    }

    #[tokio::test]
    async fn the_number_of_clients_that_follow_the_logs_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let routes = test_routes(folder.path());
        let mut held = Vec::new();
        for client in 1..=3 {
            for _ in 0..FOLLOWERS.per_client {
                held.push(get_as(&routes, client, "/api/logs?follow=true").await);
            }
        }
        let (followers, refused): (Vec<_>, Vec<_>) =
            held.iter().partition(|response| response.status() == StatusCode::OK);
        assert_eq!(followers.len(), FOLLOWERS.total);
        assert!(refused.iter().all(|response| response.status() == StatusCode::SERVICE_UNAVAILABLE));
        assert!(followers.iter().all(|response| response.extensions().get::<EndlessResponse>().is_some()));
        // Those who only read are answered.
        let response = get_as(&routes, 1, "/api/logs").await;
        assert!(response.extensions().get::<EndlessResponse>().is_none());
        assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "");
        held.clear();
        assert_eq!(get_as(&routes, 3, "/api/logs?follow=true").await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn only_probes_are_answered_on_reserved_connections() {
        let folder = tempfile::tempdir().expect("a folder");
        let routes = test_routes(folder.path()).layer(axum::Extension(ReservedConnection));
        for (path, answered) in
            [("/healthz", "ok"), ("/readyz", "not ready"), ("/metrics", "too many"), ("/", "too many")]
        {
            let body = get_as(&routes, 1, path).await.into_body().collect().await.expect("a body").to_bytes();
            assert!(body.starts_with(answered.as_bytes()), "{path}: {body:?}");
        }
    }
}
