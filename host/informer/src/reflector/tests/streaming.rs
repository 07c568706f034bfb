//! Streaming lists: B04 and B07.

use super::*;

#[tokio::test(start_paused = true)]
async fn b04_initial_events_move_the_version_only_at_their_end() {
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
        "one replacement, then the same stream goes on"
    );
    drop(body);
    let (resumed, _request) = r.server.watch().await;
    assert_eq!((resumed.resource_version.as_deref(), resumed.send_initial_events), (Some("13"), false));
}

#[tokio::test(start_paused = true)]
async fn b04_a_streaming_list_that_is_cut_starts_from_nothing() {
    let mut r = start(&streaming());
    let body = r.server.watch().await.1.open();
    body.added(&pod("a", 1));
    body.added(&pod("b", 2));
    body.cut();
    // b is deleted meanwhile.
    let (again, request) = r.server.watch().await;
    assert_eq!((again.resource_version.as_deref(), again.send_initial_events), (Some("0"), true));
    assert!(r.queue.is_empty());
    let body = request.open();
    body.added(&pod("a", 1));
    body.initial_end(5);
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
}

#[tokio::test(start_paused = true)]
async fn b04_a_streaming_relist_that_is_cut_leaves_the_store_as_it_was() {
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
    let (_, request) = r.server.watch().await;
    assert!(r.queue.is_empty() && r.store.len() == 1);
    let body = request.open();
    body.initial_end(7);
    assert_eq!(r.deltas(1).await, ["=7[]"]);
}

#[tokio::test(start_paused = true)]
async fn b07_a_server_without_streaming_lists_gets_plain_ones_at_once() {
    let mut r = start(&streaming());
    let at = Instant::now();
    r.server.watch().await.1.status(422, "Invalid");
    let (list, request) = r.server.list().await;
    assert_eq!((list.resource_version.as_deref(), at.elapsed()), (Some("0"), Duration::ZERO));
    request.items("5", &[pod("a", 1)]);
    let body = r.server.watch().await.1.open();
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
    assert!(r.status.borrow().error.is_none(), "no fault to show");
    body.error(410, "Expired");
    r.server.list().await;
}

/// As kube-apiserver does above an etcd that cannot tell its progress.
#[tokio::test(start_paused = true)]
async fn b07_a_server_that_fails_every_streaming_list_gets_plain_lists_soon() {
    let mut r = start(&streaming());
    let at = Instant::now();
    r.server.watch().await.1.status(500, "InternalError");
    r.server.watch().await.1.status(500, "InternalError");
    let (_, request) = r.server.list().await;
    assert!(at.elapsed() < Duration::from_secs(30), "{:?}", at.elapsed());
    request.items("5", &[pod("a", 1)]);
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
}

#[tokio::test(start_paused = true)]
async fn b07_a_server_that_ignores_the_parameter_gets_plain_lists_soon() {
    let mut r = start(&streaming());
    let at = Instant::now();
    // It sends events, as for version 0, and never the end of the initial ones.
    let first = r.server.watch().await.1.open();
    first.added(&pod("a", 1));
    let second = r.server.watch().await.1.open();
    second.added(&pod("a", 1));
    let (list, request) = r.server.list().await;
    assert_eq!(list.resource_version.as_deref(), Some("0"));
    assert!(at.elapsed() < Duration::from_secs(30), "{:?}", at.elapsed());
    request.items("5", &[pod("a", 1)]);
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
}

#[tokio::test(start_paused = true)]
async fn b07_a_streaming_list_from_a_version_that_is_gone_is_read_consistently() {
    let mut r = start(&streaming());
    let body = r.server.watch().await.1.open();
    body.initial_end(5);
    body.error(410, "Expired");
    let (params, request) = r.server.watch().await;
    assert_eq!(params.resource_version.as_deref(), Some("5"));
    request.fail(too_large());
    let (params, request) = r.server.watch().await;
    assert_eq!((params.resource_version, params.send_initial_events), (None, true));
    let body = request.open();
    body.error(410, "Expired");
    let (params, _request) = r.server.watch().await;
    assert_eq!(params.resource_version, None);
}
