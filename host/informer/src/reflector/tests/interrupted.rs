//! Interrupted lists and streams, and servers that answer with less than expected.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_paged_list_cut_after_page_one_leaves_nothing_behind() {
    let mut r = start(&plain());
    r.server.list().await.1.page("5", "t1", &[pod("gone", 1)]);
    // The second page is cut in the middle of an item.
    let (_, request) = r.server.list().await;
    request.raw(&[r#"{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"half""#]);
    let (relist, request) = r.server.list().await;
    assert_eq!((relist.resource_version.as_deref(), relist.continue_token), (Some("0"), None));
    assert!(r.queue.is_empty());
    request.items("7", &[pod("b", 2)]);
    assert_eq!(r.deltas(1).await, ["=7[b@2]"]);
}

#[tokio::test(start_paused = true)]
async fn a_410_in_the_middle_of_a_list_leads_to_one_full_list() {
    let mut r = start(&plain());
    r.server.list().await.1.page("5", "t1", &[pod("gone", 1)]);
    let refused_at = Instant::now();
    r.server.list().await.1.fail(expired());
    let (full, request) = r.server.list().await;
    assert_eq!(full, crate::ListParams::default(), "no version, no limit, no token");
    assert_eq!(refused_at.elapsed(), Duration::ZERO);
    request.items("6", &[pod("b", 2)]);
    assert_eq!(r.deltas(1).await, ["=6[b@2]"], "nothing of the interrupted list is left");
}

#[tokio::test(start_paused = true)]
async fn a_too_large_resource_version_leads_to_a_consistent_list() {
    let mut r = start(&plain());
    let body = r.server.serve("900", &[pod("a", 899)]).await;
    assert_eq!(r.deltas(1).await, ["=900[a@899]"]);
    drop(body);
    r.server.watch().await.1.fail(too_large());
    let (relist, request) = r.server.list().await;
    assert_eq!(
        relist.resource_version.as_deref(),
        Some("900"),
        "the failed watch alone does not unset the version"
    );
    let refused_at = Instant::now();
    request.fail(too_large());
    let (consistent, request) = r.server.list().await;
    assert_eq!((consistent.resource_version, refused_at.elapsed()), (None, Duration::ZERO));
    request.items("40", &[pod("a", 12)]);
    assert_eq!(r.deltas(1).await, ["=40[a@12]"]);
    let (watch, _request) = r.server.watch().await;
    assert_eq!(watch.resource_version.as_deref(), Some("40"), "the lower version is authoritative now");
}

#[tokio::test(start_paused = true)]
async fn a_cut_streaming_list_starts_over_and_misses_no_deletion() {
    let mut r = start(&streaming());
    let body = r.server.watch().await.1.open();
    body.added(&pod("a", 1));
    body.added(&pod("b", 2));
    let cut_at = Instant::now();
    body.cut();
    // b is deleted meanwhile.
    let (list, request) = r.server.list().await;
    assert_eq!((list.resource_version.as_deref(), cut_at.elapsed()), (Some("0"), Duration::ZERO));
    assert!(r.queue.is_empty(), "nothing of the incomplete list is queued");
    request.items("5", &[pod("a", 1)]);
    let body = r.server.watch().await.1.open();
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
    // The next list is a streaming one again. It counts as cut even if it ends without an error.
    body.error(410, "Expired");
    let (params, request) = r.server.watch().await;
    assert!(params.send_initial_events);
    let body = request.open();
    body.added(&pod("c", 6));
    drop(body);
    r.server.list().await.1.items("8", &[]);
    assert_eq!(r.deltas(1).await, ["=8[]"]);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_advances_the_version_and_counts_as_progress() {
    let mut r = start(&plain());
    let body = r.server.serve("5", &[pod("a", 1)]).await;
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
    body.bookmark(6);
    let ended = Instant::now();
    drop(body);
    let (resumed, _request) = r.server.watch().await;
    assert_eq!((resumed.resource_version.as_deref(), ended.elapsed()), (Some("6"), Duration::ZERO));
    assert!(r.queue.is_empty(), "no delta");
    assert_eq!(r.store.resource_version(), "6");
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_is_a_replacement_and_syncs() {
    for options in [plain(), streaming()] {
        let mut r = start(&options);
        if options.streaming_list {
            let body = r.server.watch().await.1.open();
            body.initial_end(5);
            assert_eq!(r.deltas(1).await, ["=5[]"]);
        } else {
            r.server.list().await.1.items("5", &[]);
            assert_eq!(r.deltas(1).await, ["=5[]"]);
            assert_eq!(r.server.watch().await.0.resource_version.as_deref(), Some("5"));
        }
        assert!(r.queue.has_synced());
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_sends_nothing_is_closed_and_the_server_is_verified() {
    let mut r = start(&plain());
    let body = r.server.serve("5", &[pod("a", 1)]).await;
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
    let silent_since = Instant::now();
    let (verification, request) = r.server.list().await;
    assert_eq!(silent_since.elapsed(), Duration::from_secs(120));
    assert!(body.is_dropped());
    assert_eq!(
        (verification.resource_version.as_deref(), verification.limit),
        (Some("5"), Some(1)),
        "one item"
    );
    request.page("5", "more", &[pod("a", 1)]);
    let (resumed, _request) = r.server.watch().await;
    assert_eq!(resumed.resource_version.as_deref(), Some("5"));
    assert!(r.queue.is_empty(), "the item is not used");
}

#[tokio::test(start_paused = true)]
async fn a_failed_verification_is_followed_by_the_watch() {
    for busy in [true, false] {
        let mut r = start(&plain());
        let _body = r.server.serve("5", &[]).await;
        let (verification, request) = r.server.list().await;
        assert_eq!(verification.limit, Some(1));
        let failed_at = Instant::now();
        if busy {
            request.fail(Failure::response(429, Some("17"), b""));
        } else {
            request.status(500, "InternalError");
        }
        let (resumed, _request) = r.server.watch().await;
        assert_eq!(resumed.resource_version.as_deref(), Some("5"));
        if busy {
            assert_eq!(failed_at.elapsed(), Duration::from_secs(17));
        } else {
            assert!(is_first_backoff(failed_at.elapsed()));
        }
    }
}
