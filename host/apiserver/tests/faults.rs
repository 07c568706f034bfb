//! Fault injection and request counts.

mod api;

use std::time::Duration;

use api::{Api, core};
use pilothouse_apiserver::{ApiServer, Matcher, Verb};
use serde_json::json;

#[tokio::test]
async fn injected_failure_applies_to_the_given_number_of_requests() {
    let api = Api::new();
    api.server.faults().fail_with_code(Matcher::of(Verb::Create, "configmaps"), 2, 500, 0);
    let body = json!({"metadata": {"name": "a"}});
    for _ in 0..2 {
        api.post(&core("configmaps"), &body).await.fails(500, "InternalError");
    }
    api.post(&core("configmaps"), &body).await.ok();
    api.server.faults().fail_with_code(Matcher::of(Verb::Update, "configmaps"), 1, 409, 0);
    api.put(&core("configmaps/a"), &body).await.fails(409, "Conflict");
}

#[tokio::test]
async fn next_list_or_watch_can_be_answered_with_410() {
    let api = Api::new();
    api.server.faults().expire(Matcher::of(Verb::List, "pods"));
    api.server.faults().expire(Matcher::of(Verb::Watch, "pods"));
    api.get(&core("pods")).await.fails(410, "Expired");
    api.get(&core("pods?watch=true")).await.fails(410, "Expired");
    api.get(&core("pods")).await.ok();
}

#[tokio::test(start_paused = true)]
async fn requests_can_be_delayed() {
    let api = Api::new();
    api.server.faults().delay(Matcher::of(Verb::List, "pods"), Some(1), Duration::from_secs(7));
    let before = tokio::time::Instant::now();
    api.get(&core("pods")).await.ok();
    assert_eq!(before.elapsed(), Duration::from_secs(7));
}

#[tokio::test]
async fn request_counts_are_available_in_process_and_over_http() {
    let api = Api::new();
    api.get(&core("pods")).await.ok();
    api.get("/api/v1/pods").await.ok();
    let _watch = api.watch("/api/v1/pods").await;
    let log = api.server.requests();
    assert_eq!((log.count(Verb::List, "v1/pods"), log.count(Verb::Watch, "v1/pods")), (2, 1));
    let counts = api.get("/debug/requests").await.ok();
    let line = json!({"verb": "watch", "resource": "v1/pods", "namespace": "", "count": 1});
    assert!(counts["counts"].as_array().is_some_and(|counts| counts.contains(&line)), "{counts}");
    api.delete("/debug/requests", &json!(null)).await.ok();
    assert_eq!(log.count(Verb::List, "v1/pods"), 0);
}

#[tokio::test]
async fn fault_injection_over_http_must_be_enabled() {
    let closed = Api::new();
    closed.post("/debug/faults", &json!({"code": 500})).await.fails(404, "NotFound");
    let open = Api { server: ApiServer::builder().faults_over_http(true).build() };
    open.post(
        "/debug/faults",
        &json!({"verb": "get", "resource": "pods", "code": 429, "retryAfterSeconds": 2}),
    )
    .await
    .ok();
    let refused = open.get(&core("pods/a")).await.fails(429, "TooManyRequests");
    assert_eq!(refused["details"]["retryAfterSeconds"], 2);
    let mut watch = open.watch(&core("pods")).await;
    open.post("/debug/faults", &json!({"resource": "pods", "cutWatches": true})).await.ok();
    assert_eq!(watch.next().await, None);
    open.post("/debug/faults", &json!({"verb": "sing"})).await.fails(400, "BadRequest");
}
