//! Watches, and behaviour common to all requests: events, backoff, stop, transforms and backpressure.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_watch_starts_at_the_lists_version_with_a_random_timeout() {
    let mut r = start(&plain());
    r.server.list().await.1.items("5", &[]);
    let mut timeouts = Vec::new();
    for _ in 0..20 {
        let (params, request) = r.server.watch().await;
        assert_eq!((params.resource_version.as_deref(), params.send_initial_events), (Some("5"), false));
        assert!((300..600).contains(&params.timeout_seconds), "{params:?}");
        timeouts.push(params.timeout_seconds);
        let body = request.open();
        tokio::time::advance(Duration::from_secs(2)).await;
        drop(body);
    }
    timeouts.sort_unstable();
    timeouts.dedup();
    assert!(timeouts.len() > 10, "drawn at random: {timeouts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_detected() {
    let mut r = start(&plain());
    let body = r.server.serve("5", &[]).await;
    body.bookmark(6);
    let silent_since = Instant::now();
    let (params, request) = r.server.watch().await;
    assert_eq!(params.resource_version.as_deref(), Some("6"), "resumed, without a relist");
    assert_eq!(silent_since.elapsed(), Duration::from_secs(120));
    assert!(body.is_dropped(), "the dead request was dropped");
    // A server that accepts the request and never answers is detected, too.
    let silent_since = Instant::now();
    drop(tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(10_000)).await;
        drop(request);
    }));
    assert_eq!(r.server.watch().await.0.resource_version.as_deref(), Some("6"));
    assert!(silent_since.elapsed() >= Duration::from_secs(120));
}

#[tokio::test(start_paused = true)]
async fn events_become_deltas_and_bookmarks_only_advance_the_version() {
    let mut r = start(&plain());
    let body = r.server.serve("5", &[pod("a", 1)]).await;
    body.added(&pod("b", 6));
    body.modified(&pod("a", 7));
    body.deleted(&pod("b", 8));
    body.bookmark(20);
    assert_eq!(r.deltas(4).await, ["=5[a@1]", "+b@6", "~a@7", "-b@8"]);
    assert!(r.is_quiet().await);
    drop(body);
    assert_eq!(r.server.watch().await.0.resource_version.as_deref(), Some("20"));
}

#[tokio::test(start_paused = true)]
async fn an_error_event_with_429_backs_off_and_resumes() {
    let mut r = start(&plain());
    let body = r.server.serve("5", &[]).await;
    body.bookmark(6);
    body.raw(
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":429,\"details\":{\"retryAfterSeconds\":9}}}\n",
    );
    let at = Instant::now();
    assert_eq!(r.server.watch().await.0.resource_version.as_deref(), Some("6"));
    assert_eq!(at.elapsed(), Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn an_error_event_with_410_403_or_400_relists() {
    for (code, reason) in [(410, "Expired"), (403, "Forbidden"), (400, "BadRequest")] {
        let mut r = start(&plain());
        let body = r.server.serve("5", &[]).await;
        body.error(code, reason);
        assert_eq!(r.server.list().await.0.resource_version.as_deref(), Some("5"), "{reason}");
        assert!(body.is_dropped());
    }
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_resumes_three_times_without_progress_then_relists() {
    let mut r = start(&plain());
    r.server.list().await.1.items("5", &[]);
    for _ in 0..2 {
        r.server.watch().await.1.open().error(500, "InternalError");
    }
    let body = r.server.watch().await.1.open();
    body.bookmark(6);
    body.error(500, "InternalError");
    for _ in 0..3 {
        let (params, request) = r.server.watch().await;
        assert_eq!(params.resource_version.as_deref(), Some("6"), "progress resets the count");
        request.open().error(500, "InternalError");
    }
    assert_eq!(r.server.list().await.0.resource_version.as_deref(), Some("6"));
}

#[tokio::test(start_paused = true)]
async fn a_malformed_event_causes_a_relist_and_is_counted() {
    let bad = [
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"9\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"9\"}}}\n",
        "{\"type\":\"WHAT\",\"object\":{}}\n",
        "not json\n",
    ];
    for line in bad {
        let mut r = start(&plain());
        let body = r.server.serve("5", &[]).await;
        body.added(&pod("a", 6));
        body.raw(line);
        body.added(&pod("b", 7));
        assert_eq!(r.deltas(2).await, ["=5[]", "+a@6"], "{line}");
        let (relist, _request) = r.server.list().await;
        assert_eq!(
            relist.resource_version.as_deref(),
            Some("6"),
            "the bad event did not move the version: {line}"
        );
        assert_eq!(r.status.borrow().failures, 1);
        assert!(r.queue.is_empty(), "events after the bad one are not used: {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_normally_resumes_at_once_without_a_relist() {
    let mut r = start(&plain());
    let body = r.server.serve("5", &[]).await;
    body.added(&pod("a", 6));
    assert_eq!(r.deltas(2).await.len(), 2);
    tokio::time::advance(Duration::from_secs(300)).await;
    let ended = Instant::now();
    drop(body);
    let (params, request) = r.server.watch().await;
    assert_eq!((params.resource_version.as_deref(), ended.elapsed()), (Some("6"), Duration::ZERO));
    // A watch with an event may be of any length.
    let body = request.open();
    body.modified(&pod("a", 7));
    body.raw("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Po");
    body.cut();
    let (params, _request) = r.server.watch().await;
    assert_eq!((params.resource_version.as_deref(), ended.elapsed()), (Some("7"), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_very_short_watch_backs_off() {
    let mut r = start(&plain());
    let body = r.server.serve("5", &[]).await;
    tokio::task::yield_now().await;
    let ended = Instant::now();
    drop(body);
    let (params, request) = r.server.watch().await;
    assert_eq!(params.resource_version.as_deref(), Some("5"), "without a relist");
    assert!(is_first_backoff(ended.elapsed()), "{:?}", ended.elapsed());
    // A repeated event is no progress: a server that sends it forever must not be asked without a pause.
    let body = request.open();
    body.bookmark(5);
    let ended = Instant::now();
    drop(body);
    r.server.watch().await;
    assert!(ended.elapsed() >= Duration::from_millis(800));
}

#[tokio::test(start_paused = true)]
async fn a_429_honours_retry_after_and_does_not_relist() {
    let busy = || Failure::response(429, Some("17"), b"");
    let mut r = start(&plain());
    let at = Instant::now();
    r.server.list().await.1.fail(busy());
    let (again, request) = r.server.list().await;
    assert_eq!((again.resource_version.as_deref(), at.elapsed()), (Some("0"), Duration::from_secs(17)));
    request.page("5", "t1", &[pod("a", 1)]);
    r.server.list().await.1.fail(busy());
    let (page, request) = r.server.list().await;
    assert_eq!(page.continue_token.as_deref(), Some("t1"), "the same page, not the whole list");
    request.page("5", "", &[pod("b", 2)]);
    assert_eq!(r.deltas(1).await, ["=5[a@1,b@2]"]);
    let at = Instant::now();
    r.server.watch().await.1.fail(busy());
    assert_eq!(r.server.watch().await.0.resource_version.as_deref(), Some("5"));
    assert_eq!(at.elapsed(), Duration::from_secs(17));
}

#[tokio::test(start_paused = true)]
async fn an_unusable_retry_after_backs_off_and_grows() {
    for header in ["0", "-1", "soon", "Wed, 21 Oct 2099 07:28:00 GMT"] {
        let mut r = start(&plain());
        let mut gaps = Vec::new();
        let mut last = Instant::now();
        for _ in 0..4 {
            r.server.list().await.1.fail(Failure::response(429, Some(header), b""));
            gaps.push(last.elapsed());
            last = Instant::now();
        }
        assert!(is_first_backoff(gaps[1]), "{header}: {gaps:?}");
        assert!(gaps[1..].windows(2).all(|pair| pair[1] > pair[0]), "{header}: {gaps:?}");
        r.server.list().await.1.items("5", &[]);
        let at = Instant::now();
        r.server.watch().await.1.open().raw(
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":429,\"details\":{\"retryAfterSeconds\":0}}}\n",
        );
        r.server.watch().await;
        assert!(at.elapsed() >= Duration::from_millis(800), "{:?}", at.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_huge_retry_after_is_limited_to_one_minute() {
    let mut r = start(&plain());
    for header in ["61", "86400", "18446744073709551615"] {
        let (_, request) = r.server.list().await;
        let at = Instant::now();
        request.fail(Failure::response(429, Some(header), b""));
        let (_, request) = r.server.list().await;
        assert_eq!(at.elapsed(), Duration::from_secs(60), "{header}");
        request.fail(Failure::response(429, Some("1"), b""));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_retries_the_watch_without_relisting() {
    let mut r = start(&plain());
    r.server.list().await.1.items("5", &[]);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let (params, request) = r.server.watch().await;
        assert_eq!(params.resource_version.as_deref(), Some("5"));
        let at = Instant::now();
        request.fail(Failure::new(crate::FailureKind::ConnectionRefused, "connection refused"));
        tokio::task::yield_now().await;
        waits.push(at);
    }
    let gaps: Vec<_> = waits.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(is_first_backoff(gaps[0]), "{gaps:?}");
    assert!(gaps.windows(2).take(3).all(|pair| pair[1] > pair[0]), "growing: {gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= Duration::from_secs(30)), "{gaps:?}");
    assert_eq!(r.status.borrow().phase, InformerPhase::BackingOff);
}

#[tokio::test(start_paused = true)]
async fn stop_drops_the_request_and_ends_the_task() {
    let mut r = start(&plain());
    let body = r.server.serve("5", &[]).await;
    assert_eq!(r.deltas(1).await, ["=5[]"]);
    body.added(&pod("a", 6));
    r.stop.cancel();
    r.task.await.expect("no panic");
    assert!(body.is_dropped());
    assert_eq!(r.status.borrow().phase, InformerPhase::Stopped);
    assert!(r.queue.is_empty(), "nothing is queued after the stop");
}

#[tokio::test(start_paused = true)]
async fn stop_is_prompt_during_backoff_list_and_backpressure() {
    for activity in ["backing off", "listing", "held back"] {
        let mut r = start(&InformerOptions { delta_capacity: 1, ..plain() });
        let (_, request) = r.server.list().await;
        match activity {
            "backing off" => request.status(500, "InternalError"),
            "listing" => drop(tokio::spawn(async move { request.open().dropped().await })),
            _ => {
                request.items("5", &[pod("a", 1), pod("b", 1)]);
                r.server.watch().await.1.open().added(&pod("c", 6));
            }
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let at = Instant::now();
        r.stop.cancel();
        r.task.await.expect("no panic");
        assert_eq!(at.elapsed(), Duration::ZERO, "{activity}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_transform_runs_before_an_object_is_queued() {
    let managed =
        |json: String| json.replace(r#""labels""#, r#""managedFields":[{"manager":"kubectl"}],"labels""#);
    let mut r = start_for(&pods_key().with_transform(Transform::standard()), &plain());
    let (_, request) = r.server.list().await;
    request.raw(&[&format!(
        r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#,
        managed(pod("a", 1).item())
    )]);
    let body = r.server.watch().await.1.open();
    assert_eq!(r.deltas(1).await, ["=1[a@1]"]);
    let by_list = r.store.list()[0].clone();
    assert!(!by_list.json().contains("managedFields"), "{}", by_list.json());
    body.raw(&format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", managed(pod("a", 1).json())));
    r.deltas(1).await;
    let by_watch = r.store.list()[0].clone();
    assert_eq!(by_watch.json(), by_list.json(), "the same bytes from list and watch");
}

#[tokio::test(start_paused = true)]
async fn backpressure_stops_reading_while_the_queue_is_full() {
    let mut r = start(&InformerOptions { delta_capacity: 4, ..plain() });
    let body = r.server.serve("5", &[]).await;
    for version in 6..1006 {
        body.added(&pod(&format!("p{version}"), version));
    }
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(r.queue.len(), 4, "one event per chunk, so never more than the capacity");
    let mut deltas = Vec::new();
    while deltas.len() < 1001 {
        deltas.extend(r.deltas(1).await);
    }
    let expected: Vec<_> = (6..1006).map(|version| format!("+p{version}@{version}")).collect();
    assert_eq!(deltas[1..], expected, "held back, not lost");
}

/// Merged changes would be applied in the order of first positions, through states that the server never had.
#[tokio::test(start_paused = true)]
async fn backpressure_holds_back_a_chunk_of_many_events_without_merging() {
    let mut r = start(&InformerOptions { delta_capacity: 4, ..plain() });
    let body = r.server.serve("5", &[]).await;
    let event = |version: u64| {
        format!(
            "{{\"type\":\"MODIFIED\",\"object\":{}}}\n",
            pod(&format!("p{}", version % 3), version).json()
        )
    };
    body.raw(&(6..1006).map(event).collect::<String>());
    let mut deltas = Vec::new();
    while deltas.len() < 1001 {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(r.queue.len() <= 4, "{}", r.queue.len());
        deltas.extend(r.deltas(1).await);
    }
    let expected: Vec<_> = (6..1006).map(|version| format!("~p{}@{version}", version % 3)).collect();
    assert_eq!(deltas[1..], expected);
    assert_eq!(r.store.resource_version(), "1005");
}

#[tokio::test(start_paused = true)]
async fn events_are_complete_wherever_chunks_are_split() {
    let events: String = (6..10)
        .map(|version| {
            format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", pod(&format!("p{version}"), version).json())
        })
        .collect();
    for size in [1, 7, 100, 333] {
        let mut r = start(&plain());
        let body = r.server.serve("5", &[] as &[Pod]).await;
        for chunk in events.as_bytes().chunks(size) {
            body.raw(std::str::from_utf8(chunk).expect("ASCII"));
        }
        assert_eq!(r.deltas(5).await, ["=5[]", "+p6@6", "+p7@7", "+p8@8", "+p9@9"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_advances_the_store_version_once_earlier_deltas_are_applied() {
    let mut r = start(&plain());
    let body = r.server.serve("5", &[pod("a", 1)]).await;
    body.added(&pod("b", 6));
    body.bookmark(20);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(r.store.resource_version(), "");
    r.deltas(1).await;
    assert_eq!(r.store.resource_version(), "5", "the change before the bookmark is still queued");
    r.deltas(1).await;
    assert_eq!(r.store.resource_version(), "20");
    body.bookmark(30);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(r.store.resource_version(), "30");
}
