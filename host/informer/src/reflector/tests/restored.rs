//! A server that was restored from a backup: its versions go back.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_lower_resource_version_leads_to_a_consistent_list() {
    for kind in ["BOOKMARK", "ADDED", "MODIFIED", "DELETED"] {
        let mut r = start(&plain());
        let body = r.server.serve("900", &[pod("a", 899), pod("b", 898)]).await;
        assert_eq!(r.deltas(1).await, ["=900[a@899,b@898]"]);
        match kind {
            "BOOKMARK" => body.bookmark(41),
            kind => body.event(kind, &pod("a", 41)),
        }
        let noticed_at = Instant::now();
        let (relist, request) = r.server.list().await;
        assert_eq!((relist.resource_version, relist.limit), (None, Some(500)), "{kind}");
        assert!(is_first_backoff(noticed_at.elapsed()), "{:?}", noticed_at.elapsed());
        assert!(body.is_dropped() && r.queue.is_empty(), "nothing of the old history is used");
        let error = r.status.borrow().error.clone().expect("an error").to_string();
        assert!(
            error.starts_with("cannot watch pods.v1 (GET /api/v1/pods): the server went back from resource version 900 to 41"),
            "{error}"
        );
        request.items("41", &[pod("a", 12)]);
        let (params, request) = r.server.watch().await;
        assert_eq!(params.resource_version.as_deref(), Some("41"));
        let body = request.open();
        assert_eq!(r.deltas(1).await, ["=41[a@12]"]);
        body.modified(&pod("a", 42));
        assert_eq!(r.deltas(1).await, ["~a@42"], "the new history continues");
        assert!(r.status.borrow().error.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_is_retried_until_it_succeeds() {
    let mut r = start(&plain());
    let body = r.server.serve("900", &[]).await;
    body.bookmark(41);
    r.server.list().await.1.status(503, "ServiceUnavailable");
    let (again, request) = r.server.list().await;
    assert_eq!(again.resource_version, None);
    request.items("41", &[]);
    assert_eq!(r.deltas(2).await, ["=900[]", "=41[]"]);
}

#[tokio::test(start_paused = true)]
async fn initial_events_may_be_in_any_order_and_a_streaming_list_may_go_back() {
    let mut r = start(&streaming());
    let body = r.server.watch().await.1.open();
    body.added(&pod("a", 899));
    body.added(&pod("b", 3));
    body.bookmark(1);
    body.initial_end(900);
    assert_eq!(r.deltas(1).await, ["=900[a@899,b@3]"]);
    body.bookmark(41);
    let (params, request) = r.server.watch().await;
    assert_eq!((params.resource_version, params.send_initial_events), (None, true));
    let body = request.open();
    body.added(&pod("b", 3));
    body.initial_end(41);
    body.modified(&pod("b", 42));
    assert_eq!(r.deltas(2).await, ["=41[b@3]", "~b@42"]);
    assert!(!body.is_dropped());
}

/// Like kube-apiserver, the server holds back events and bookmarks up to the requested version.
#[tokio::test(start_paused = true)]
async fn a_restored_server_that_sends_nothing_is_detected() {
    for refusal in [too_large(), expired()] {
        let mut r = start(&plain());
        let _body = r.server.serve("900", &[pod("a", 899)]).await;
        let (verification, request) = r.server.list().await;
        assert_eq!((verification.resource_version.as_deref(), verification.limit), (Some("900"), Some(1)));
        request.fail(refusal);
        let (consistent, request) = r.server.list().await;
        assert_eq!((consistent.resource_version, consistent.limit), (None, Some(500)));
        request.items("41", &[]);
        assert_eq!(r.deltas(2).await, ["=900[a@899]", "=41[]"]);
    }
    // A server that answers with its current state, although it is older than the requested version.
    let mut r = start(&plain());
    let _body = r.server.serve("900", &[pod("a", 899)]).await;
    r.server.list().await.1.items("41", &[]);
    let (consistent, _request) = r.server.list().await;
    assert_eq!(consistent.resource_version, None);
}

#[tokio::test(start_paused = true)]
async fn a_server_with_unordered_events_does_not_cause_a_relist_for_each() {
    let mut r = start(&plain());
    let mut body = r.server.serve("10", &[]).await;
    for _ in 0..3 {
        body.bookmark(9);
        r.server.list().await.1.items("10", &[]);
        body = r.server.watch().await.1.open();
    }
    body.added(&pod("a", 9));
    body.added(&pod("b", 8));
    assert_eq!(r.deltas(6).await, ["=10[]", "=10[]", "=10[]", "=10[]", "+a@9", "+b@8"]);
    drop(body);
    let (resumed, _request) = r.server.watch().await;
    assert_eq!(resumed.resource_version.as_deref(), Some("10"), "the last version never decreases");
}

#[tokio::test(start_paused = true)]
async fn non_numeric_versions_have_no_order() {
    let mut r = start(&plain());
    let body = r.server.serve("z9", &[]).await;
    body.raw(
        "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"a1\"}}}\n",
    );
    let ended = Instant::now();
    drop(body);
    let (resumed, _request) = r.server.watch().await;
    assert_eq!((resumed.resource_version.as_deref(), ended.elapsed()), (Some("a1"), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_non_numeric_version_is_no_progress() {
    let mut r = start(&plain());
    let body = r.server.serve("z9", &[]).await;
    body.raw(
        "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"z9\"}}}\n",
    );
    let ended = Instant::now();
    drop(body);
    assert_eq!(r.server.watch().await.0.resource_version.as_deref(), Some("z9"));
    assert!(is_first_backoff(ended.elapsed()), "{:?}", ended.elapsed());
}

/// Like kube-apiserver after its etcd was restored, the server accepts the watch and sends nothing.
#[tokio::test(start_paused = true)]
async fn a_server_restored_during_a_connection_loss_is_detected_within_seconds() {
    for kind in
        [crate::FailureKind::Connection, crate::FailureKind::ConnectionRefused, crate::FailureKind::Server]
    {
        let mut r = start(&plain());
        let body = r.server.serve("900", &[pod("a", 899)]).await;
        tokio::time::advance(Duration::from_secs(10)).await;
        body.cut();
        r.server.watch().await.1.fail(Failure::new(kind, "lost"));
        let (resumed, request) = r.server.watch().await;
        assert_eq!(
            resumed.resource_version.as_deref(),
            Some("900"),
            "the watch resumes before the server is verified"
        );
        let opened_at = Instant::now();
        let body = request.open();
        let (verification, request) = r.server.list().await;
        assert_eq!((verification.resource_version, verification.limit), (None, Some(1)));
        let silence = opened_at.elapsed();
        assert!((Duration::from_secs(2)..=Duration::from_secs(6)).contains(&silence), "{silence:?}");
        assert!(body.is_dropped());
        request.items("41", &[pod("a", 12)]);
        let (consistent, request) = r.server.list().await;
        assert_eq!((consistent.resource_version, consistent.limit), (None, Some(500)));
        assert!(opened_at.elapsed() < Duration::from_secs(7));
        request.items("41", &[pod("a", 12)]);
        assert_eq!(r.deltas(2).await, ["=900[a@899]", "=41[a@12]"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_not_restored_is_verified_once_and_the_watch_resumes() {
    let mut r = start(&plain());
    let body = r.server.serve("900", &[]).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    body.cut();
    let _silent = r.server.watch().await.1.open();
    r.server.list().await.1.page("901", "more", &[pod("b", 901)]);
    let (resumed, request) = r.server.watch().await;
    assert_eq!(resumed.resource_version.as_deref(), Some("900"), "the page of the verification is not used");
    let body = request.open();
    assert!(r.server.is_quiet_for(Duration::from_secs(100)).await, "no further request");
    assert_eq!(r.status.borrow().failures, 1, "only the cut counts: a verification is not a failure");
    body.added(&pod("b", 901));
    assert_eq!(r.deltas(2).await, ["=900[]", "+b@901"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_delivers_after_a_connection_loss_is_not_verified() {
    let mut r = start(&plain());
    let body = r.server.serve("900", &[]).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    body.cut();
    let body = r.server.watch().await.1.open();
    body.bookmark(901);
    assert!(r.server.is_quiet_for(Duration::from_secs(100)).await);
    // Nor is a watch that follows one that ended normally.
    drop(body);
    let _body = r.server.watch().await.1.open();
    assert!(r.server.is_quiet_for(Duration::from_secs(100)).await);
}

#[tokio::test(start_paused = true)]
async fn informers_verify_at_different_times() {
    let mut silences = Vec::new();
    for seed in 0..20 {
        let mut r = start(&InformerOptions { seed: Some(seed), ..plain() });
        let body = r.server.serve("900", &[]).await;
        tokio::time::advance(Duration::from_secs(10)).await;
        body.cut();
        let _body = r.server.watch().await.1.open();
        let at = Instant::now();
        let _verification = r.server.list().await;
        silences.push(at.elapsed());
    }
    silences.sort_unstable();
    assert!(silences[19] - silences[0] > Duration::from_secs(2), "{silences:?}");
}
