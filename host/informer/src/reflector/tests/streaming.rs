//! Streaming lists (`WatchList`) and the fallback to plain lists.

use super::*;

#[tokio::test(start_paused = true)]
async fn initial_events_advance_the_version_only_at_their_end() {
    let mut r = start(&streaming());
    let (params, request) = r.server.watch().await;
    assert!(params.send_initial_events);
    assert_eq!(params.resource_version.as_deref(), Some("0"));
    let body = request.open();
    body.added(&pod("a", 9));
    body.added(&pod("b", 3));
    body.bookmark(4);
    tokio::task::yield_now().await;
    assert_eq!(r.status.borrow().resource_version, None);
    body.modified(&pod("b", 10));
    body.added(&pod("c", 11));
    body.deleted(&pod("c", 12));
    body.initial_end(12);
    body.modified(&pod("a", 13));
    assert_eq!(
        r.deltas(2).await,
        ["=12[a@9,b@10]", "~a@13"],
        "one replacement, then the same stream continues"
    );
    drop(body);
    let (resumed, _request) = r.server.watch().await;
    assert_eq!((resumed.resource_version.as_deref(), resumed.send_initial_events), (Some("13"), false));
}

#[tokio::test(start_paused = true)]
async fn a_cut_streaming_relist_leaves_the_store_unchanged() {
    let mut r = start(&streaming());
    let body = r.server.watch().await.1.open();
    body.added(&pod("a", 1));
    body.initial_end(5);
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
    body.error(410, "Expired");
    let (params, request) = r.server.watch().await;
    assert_eq!((params.resource_version.as_deref(), params.send_initial_events), (Some("5"), true));
    let body = request.open();
    body.added(&pod("b", 6));
    body.cut();
    let (list, request) = r.server.list().await;
    assert_eq!(list.resource_version.as_deref(), Some("5"), "the initial events did not advance the version");
    assert!(r.queue.is_empty() && r.store.len() == 1);
    request.items("7", &[]);
    assert_eq!(r.deltas(1).await, ["=7[]"]);
}

#[tokio::test(start_paused = true)]
async fn an_unsupported_streaming_list_falls_back_to_a_plain_list_at_once() {
    for (code, reason) in [
        (400, "BadRequest"),
        (405, "MethodNotAllowed"),
        (406, "NotAcceptable"),
        (415, "UnsupportedMediaType"),
        (422, "Invalid"),
    ] {
        let mut r = start(&streaming());
        let at = Instant::now();
        r.server.watch().await.1.status(code, reason);
        let (list, request) = r.server.list().await;
        assert_eq!((list.resource_version.as_deref(), at.elapsed()), (Some("0"), Duration::ZERO), "{code}");
        assert!(r.status.borrow().error.is_none(), "no failure is shown meanwhile either");
        request.items("5", &[pod("a", 1)]);
        let _body = r.server.watch().await.1.open();
        assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
        assert!(r.status.borrow().error.is_none(), "no failure is shown");
    }
}

/// 500 is what kube-apiserver answers if its etcd cannot report progress.
#[tokio::test(start_paused = true)]
async fn a_failed_streaming_list_falls_back_to_a_plain_list_at_once() {
    for (code, reason) in
        [(500, "InternalError"), (503, "ServiceUnavailable"), (404, "NotFound"), (403, "Forbidden")]
    {
        let mut r = start(&streaming());
        let at = Instant::now();
        r.server.watch().await.1.status(code, reason);
        let (list, request) = r.server.list().await;
        assert_eq!((list.resource_version.as_deref(), at.elapsed()), (Some("0"), Duration::ZERO), "{reason}");
        assert!(r.status.borrow().error.is_some(), "shown until a list succeeds");
        request.items("5", &[pod("a", 1)]);
        assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_list_that_also_fails_backs_off() {
    let mut r = start(&streaming());
    r.server.watch().await.1.status(500, "InternalError");
    r.server.list().await.1.status(500, "InternalError");
    let at = Instant::now();
    let (again, _request) = r.server.watch().await;
    assert!(again.send_initial_events && is_first_backoff(at.elapsed()), "{:?}", at.elapsed());
}

/// Fails a streaming list and serves the plain list after it; then fails the watch, so that a relist follows.
async fn serve_plain_list(r: &mut RunningReflector, version: &str) {
    r.server.watch().await.1.status(500, "InternalError");
    r.server.list().await.1.items(version, &[]);
    relist(r).await;
}

async fn relist(r: &mut RunningReflector) {
    let (params, request) = r.server.watch().await;
    assert!(!params.send_initial_events);
    request.open().error(410, "Expired");
}

#[tokio::test(start_paused = true)]
async fn two_failures_pause_streaming_lists_for_ten_minutes() {
    let mut r = start(&streaming());
    serve_plain_list(&mut r, "5").await;
    serve_plain_list(&mut r, "6").await;
    let paused = Instant::now();
    r.server.list().await.1.items("7", &[]);
    let body = r.server.watch().await.1.open();
    tokio::time::advance(Duration::from_secs(600)).await;
    body.error(410, "Expired");
    let (params, request) = r.server.watch().await;
    assert!(params.send_initial_events && paused.elapsed() >= Duration::from_secs(600));
    request.open().initial_end(8);
    // That streaming list succeeded, so one failure does not pause streaming again.
    relist_from(&mut r, "9").await;
}

/// Ends the watch, fails the streaming relist, serves a plain list, and checks that the next relist is a streaming one again.
async fn relist_from(r: &mut RunningReflector, version: &str) {
    let (params, request) = r.server.watch().await;
    assert!(!params.send_initial_events, "{params:?}");
    request.open().error(410, "Expired");
    r.server.watch().await.1.status(500, "InternalError");
    r.server.list().await.1.items(version, &[]);
    relist(r).await;
    assert!(r.server.watch().await.0.send_initial_events);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_send_initial_events_gets_a_plain_list_after_ten_seconds() {
    let mut r = start(&streaming());
    let at = Instant::now();
    // The server sends events as for version 0, but never the end of the initial events.
    let body = r.server.watch().await.1.open();
    body.added(&pod("a", 1));
    let (list, request) = r.server.list().await;
    assert_eq!((list.resource_version.as_deref(), at.elapsed()), (Some("0"), Duration::from_secs(10)));
    assert!(body.is_dropped());
    request.items("5", &[pod("a", 1)]);
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_backs_off_for_a_busy_and_for_an_unreachable_server() {
    let mut r = start(&streaming());
    let at = Instant::now();
    r.server.watch().await.1.fail(Failure::response(429, Some("17"), b""));
    let (again, request) = r.server.watch().await;
    assert_eq!((again.send_initial_events, at.elapsed()), (true, Duration::from_secs(17)));
    let at = Instant::now();
    request.fail(Failure::new(crate::FailureKind::ConnectionRefused, "connection refused"));
    assert!(r.server.watch().await.0.send_initial_events);
    assert!(is_first_backoff(at.elapsed()), "{:?}", at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_from_an_expired_version_becomes_a_consistent_read() {
    for refusal in [expired(), too_large()] {
        let mut r = start(&streaming());
        let body = r.server.watch().await.1.open();
        body.initial_end(5);
        body.error(410, "Expired");
        let (params, request) = r.server.watch().await;
        assert_eq!(params.resource_version.as_deref(), Some("5"));
        request.fail(refusal);
        let (params, request) = r.server.watch().await;
        assert_eq!((params.resource_version, params.send_initial_events), (None, true));
        request.open().error(410, "Expired");
        let (list, _request) = r.server.list().await;
        assert_eq!((list.resource_version, list.limit), (None, Some(500)), "refused again: a plain list");
    }
}
