//! Plain lists: versions, paging, consistent reads and backoff.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_first_list_accepts_any_version_and_a_relist_none_older_than_the_last_seen() {
    let mut r = start(&plain());
    let (first, request) = r.server.list().await;
    assert_eq!((first.resource_version.as_deref(), first.limit), (Some("0"), None));
    request.items("5", &[pod("a", 1)]);
    let (watch, request) = r.server.watch().await;
    assert_eq!(watch.resource_version.as_deref(), Some("5"));
    let body = request.open();
    body.added(&pod("b", 6));
    assert_eq!(r.deltas(2).await, ["=5[a@1]", "+b@6"]);
    body.error(410, "Expired");
    let (relist, _request) = r.server.list().await;
    assert_eq!((relist.resource_version.as_deref(), relist.limit), (Some("6"), None));
}

#[tokio::test(start_paused = true)]
async fn only_a_refused_list_is_followed_by_a_consistent_read() {
    for refusal in [expired(), too_large()] {
        let mut r = start(&plain());
        drop(r.server.serve("5", &[]).await);
        let (_, watch) = r.server.watch().await;
        watch.fail(expired());
        let (relist, request) = r.server.list().await;
        assert_eq!(
            relist.resource_version.as_deref(),
            Some("5"),
            "the 410 of a watch does not unset the version"
        );
        let refused_at = Instant::now();
        request.fail(refusal);
        let (consistent, request) = r.server.list().await;
        assert_eq!((consistent.resource_version, consistent.limit), (None, Some(500)));
        assert_eq!(refused_at.elapsed(), Duration::ZERO, "the consistent read follows at once");
        request.items("9", &[]);
        let body = r.server.watch().await.1.open();
        body.error(410, "Gone");
        let (next, _request) = r.server.list().await;
        assert_eq!(
            next.resource_version.as_deref(),
            Some("9"),
            "a successful list ends the consistent reads"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_consistent_read_backs_off() {
    let mut r = start(&plain());
    r.server.list().await.1.fail(expired());
    let refused_at = Instant::now();
    r.server.list().await.1.fail(expired());
    let (again, _request) = r.server.list().await;
    assert_eq!(again.resource_version, None);
    assert!(is_first_backoff(refused_at.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_is_paged() {
    let mut r = start(&InformerOptions { page_size: 2, ..plain() });
    r.server.list().await.1.fail(expired());
    let (first, request) = r.server.list().await;
    assert_eq!((first.limit, first.continue_token), (Some(2), None));
    request.page("5", "t1", &[pod("a", 1), pod("b", 2)]);
    let (second, request) = r.server.list().await;
    assert_eq!((second.limit, second.continue_token.as_deref()), (Some(2), Some("t1")));
    assert_eq!(second.resource_version, None);
    request.page("5", "", &[pod("c", 3)]);
    assert_eq!(r.deltas(1).await, ["=5[a@1,b@2,c@3]"], "one replacement for all pages");
    assert_eq!(r.server.watch().await.0.resource_version.as_deref(), Some("5"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_backs_off_and_reports_the_reason() {
    let mut r = start(&plain());
    let at = Instant::now();
    r.server.list().await.1.status(503, "ServiceUnavailable");
    let (_, request) = r.server.list().await;
    assert!(is_first_backoff(at.elapsed()));
    let error = r.status.borrow().error.clone().expect("an error").to_string();
    assert!(error.starts_with("cannot list pods.v1 (GET /api/v1/pods): HTTP 503"), "{error}");
    request.items("5", &[]);
    let _body = r.server.watch().await.1.open();
    r.status.wait_for(|status| status.error.is_none()).await.expect("running");
}

/// Returns Pods of some 8 KB, half of it after the metadata.
fn large_pods(range: std::ops::Range<u64>) -> Vec<Pod> {
    range.map(|number| pod(&format!("p{number}"), number).app(&"web".repeat(1_300))).collect()
}

/// Returns the number of cached objects that share text with another one.
fn shared(r: &RunningReflector) -> usize {
    r.store.list().iter().filter(|object| pilothouse_model::PackedObject::of(object).is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn only_objects_of_a_large_cache_share_text() {
    let mut r = start(&InformerOptions { page_size: 400, ..plain() });
    r.server.list().await.1.fail(expired());
    r.server.list().await.1.page("400", "t1", &large_pods(1..401));
    r.server.list().await.1.page("400", "t2", &large_pods(401..801));
    r.server.list().await.1.page("800", "", &large_pods(801..901));
    r.deltas(1).await;
    assert_eq!(shared(&r), 498, "all but the first page, and the base of each further one");
    let body = r.server.watch().await.1.open();
    large_pods(901..903).iter().for_each(|pod| body.added(pod));
    r.deltas(2).await;
    assert_eq!(shared(&r), 499, "the watch has a base of its own");

    let mut r = start(&plain());
    let body = r.server.serve("400", &large_pods(1..401)).await;
    large_pods(401..403).iter().for_each(|pod| body.added(pod));
    r.deltas(3).await;
    assert_eq!(shared(&r), 0);
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_large_list_that_streams_share_text() {
    let mut r = start(&streaming());
    let body = r.server.watch().await.1.open();
    large_pods(1..901).iter().for_each(|pod| body.added(pod));
    body.initial_end(900);
    r.deltas(1).await;
    let shared = shared(&r);
    assert!((300..500).contains(&shared), "{shared} of 900, those after the first 4 MiB");
}
