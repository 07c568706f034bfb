//! A broken or hostile server: every request ends, everything that is read is bounded, and requests are never repeated without
//! a pause.

use super::*;

/// Asserts that the reflector gave the list up, keeps nothing of it, and lists again after a pause.
async fn assert_gives_up(r: &mut RunningReflector, problem: &str) {
    let at = Instant::now();
    let (relist, _request) = r.server.list().await;
    assert_eq!((relist.resource_version.as_deref(), relist.continue_token), (Some("0"), None), "{problem}");
    assert!(at.elapsed() >= Duration::from_millis(800), "{:?}: {problem}", at.elapsed());
    assert!(r.queue.is_empty());
    let error = r.status.borrow().error.clone().expect("an error").to_string();
    assert!(error.starts_with("cannot list pods.v1") && error.contains(problem), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_continue_token_ends_the_list() {
    let mut r = start(&plain());
    r.server.list().await.1.page("5", "t1", &[pod("a", 1)]);
    r.server.list().await.1.page("5", "t2", &[pod("b", 2)]);
    r.server.list().await.1.page("5", "t2", &[pod("b", 2)]);
    assert_gives_up(&mut r, "the list does not end").await;
}

#[tokio::test(start_paused = true)]
async fn more_than_100_empty_pages_end_the_list() {
    let mut r = start(&plain());
    for page in 0..=100 {
        r.server.list().await.1.page("5", &format!("t{page}"), &[]);
    }
    assert_gives_up(&mut r, "more than 100 of its pages have no item").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_above_max_list_items_is_aborted_in_one_page_or_several() {
    let few = InformerOptions { max_list_items: 3, ..plain() };
    let mut r = start(&few);
    r.server.list().await.1.items("5", &[pod("a", 1), pod("b", 1), pod("c", 1)]);
    assert_eq!(r.deltas(1).await, ["=5[a@1,b@1,c@1]"]);

    let mut r = start(&few);
    r.server.list().await.1.page("5", "t1", &[pod("a", 1), pod("b", 1)]);
    r.server.list().await.1.page("5", "t2", &[pod("c", 1), pod("d", 1)]);
    assert_gives_up(&mut r, "max_list_items").await;

    // Reading stops at a body that never ends.
    let mut r = start(&few);
    let body = r.server.list().await.1.open();
    body.raw(r#"{"metadata":{"resourceVersion":"5"},"items":["#);
    for _ in 0..4 {
        body.raw(&format!("{},", pod("a", 1).item()));
    }
    body.dropped().await;
    assert_gives_up(&mut r, "a list of more than 3 items").await;
}

#[tokio::test(start_paused = true)]
async fn endless_initial_events_fall_back_to_a_plain_list() {
    let mut r = start(&InformerOptions { max_list_items: 3, ..streaming() });
    let body = r.server.watch().await.1.open();
    for _ in 0..4 {
        body.added(&pod("a", 1));
        body.deleted(&pod("a", 1));
    }
    let (_, request) = r.server.list().await;
    assert!(body.is_dropped());
    request.items("5", &[pod("a", 1)]);
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
}

/// Sends a byte per second until the reflector drops the request.
async fn drip(body: &crate::scripted_server::WatchBody) {
    while !body.is_dropped() {
        body.raw(" ");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_arrives_byte_by_byte_is_given_up() {
    let mut r = start(&plain());
    let body = r.server.list().await.1.open();
    body.raw(r#"{"metadata":{"resourceVersion":"5"},"items":["#);
    drip(&body).await;
    let (relist, _request) = r.server.list().await;
    assert_eq!((relist.resource_version.as_deref(), relist.continue_token), (Some("0"), None));
    let error = r.status.borrow().error.clone().expect("an error").to_string();
    assert!(error.contains("the list arrives too slowly"), "{error}");
    assert!(r.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn initial_events_that_arrive_byte_by_byte_fall_back_to_a_plain_list() {
    let mut r = start(&streaming());
    let body = r.server.watch().await.1.open();
    drip(&body).await;
    r.server.list().await.1.items("5", &[pod("a", 1)]);
    assert_eq!(r.deltas(1).await, ["=5[a@1]"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_oversized_resource_version_is_rejected() {
    let mut r = start(&plain());
    r.server.list().await.1.items(&"9".repeat(100_000), &[]);
    assert_gives_up(&mut r, "a resource version of 100000 bytes").await;
}

#[tokio::test(start_paused = true)]
async fn oversized_parts_of_an_event_are_rejected_and_cause_a_relist() {
    let deep = pod("deep", 6)
        .json()
        .replace(r#"{"nodeName":"n-web"}"#, &format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000)));
    let long = "x".repeat(3_000_000);
    for (line, problem) in [
        (format!("{{\"type\":\"ADDED\",\"object\":{deep}}}\n"), "nested more than 10000 deep"),
        (
            format!("{{\"type\":\"ADDED\",\"object\":{{\"a\":\"{long}"),
            "more than 2500000 bytes without an end",
        ),
        (long.clone(), "more than 2500000 bytes without an end"),
        (
            format!(
                "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{}\"}}}}}}\n",
                "7".repeat(300)
            ),
            "a resource version of 300 bytes",
        ),
        (format!("{{\"type\":\"{}\"}}\n", "[".repeat(2_000_000)), "not JSON"),
    ] {
        let mut r = start(&InformerOptions { max_object_bytes: 2_500_000, ..plain() });
        let body = r.server.serve("5", &[]).await;
        for chunk in line.as_bytes().chunks(100_000) {
            body.raw(std::str::from_utf8(chunk).expect("ASCII"));
        }
        let at = Instant::now();
        let (relist, _request) = r.server.list().await;
        assert_eq!(relist.resource_version.as_deref(), Some("5"), "{problem}");
        assert!(at.elapsed() >= Duration::from_millis(800), "{problem}");
        let error = r.status.borrow().error.clone().expect("an error").to_string();
        assert!(error.contains(problem) && error.len() < 5_000, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_counts_as_a_failure() {
    let mut r = start(&plain());
    let (_, request) = r.server.list().await;
    let at = Instant::now();
    request.fail(Failure::response(302, None, b"<a href=\"http://elsewhere.example/\">"));
    r.server.list().await;
    assert!(is_first_backoff(at.elapsed()), "{:?}", at.elapsed());
}
