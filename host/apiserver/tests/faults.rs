//! Fault injection and request counts.

mod api;

use std::time::Duration;

use api::{Api, core};
use bytes::Bytes;
use futures::FutureExt;
use http::Method;
use pilothouse_apiserver::{ApiServer, Matcher, Verb};
use serde_json::{Value, json};

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
    let refused = closed.post("/debug/faults", &json!({"code": 500})).await.fails(404, "NotFound");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("--enable-faults")), "{refused}");
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

#[tokio::test]
async fn members_that_contradict_each_other_are_refused_and_have_no_effect() {
    let api = with_faults();
    for other in [
        json!({"code": 500}),
        json!({"hang": true}),
        json!({"count": 3}),
        json!({"verb": "watch"}),
        json!({"name": "a"}),
        json!({"namespace": "a"}),
    ] {
        let mut fault = json!({"resource": "pods", "freezeWatches": true});
        let members = fault.as_object_mut().expect("an object");
        members.extend(other.as_object().expect("an object").clone());
        api.post("/debug/faults", &fault).await.fails(400, "BadRequest");
    }
    for body in
        [json!(["update", "apps", "deployments", null, null, 5, 409]), json!([]), json!(null), json!(5)]
    {
        api.post("/debug/faults", &body).await.fails(400, "BadRequest");
    }
    let twice = Bytes::from_static(br#"{"code": 500, "code": 409}"#);
    api.send(Method::POST, "/debug/faults", "application/json", twice).await.fails(400, "BadRequest");
    let state = api.get("/debug/faults").await.ok();
    assert_eq!(state, json!({"faults": [], "frozenWatches": []}));
}

fn with_faults() -> Api {
    Api { server: ApiServer::builder().faults_over_http(true).build() }
}

#[tokio::test]
async fn frozen_watches_send_nothing_until_they_continue_or_end() {
    let api = with_faults();
    let mut watch = api.watch(&core("configmaps")).await;
    api.post("/debug/faults", &json!({"resource": "configmaps", "freezeWatches": true})).await.ok();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    assert!(watch.next().now_or_never().is_none());
    api.post("/debug/faults", &json!({"resource": "configmaps", "freezeWatches": false})).await.ok();
    assert_eq!(watch.next_summary().await, "ADDED a");
    api.post("/debug/faults", &json!({"resource": "configmaps", "freezeWatches": true})).await.ok();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "b"}})).await.ok();
    let mut late = api.watch(&core("configmaps")).await;
    assert!(late.next().now_or_never().is_none(), "a new watch is frozen, too");
    let state = api.get("/debug/faults").await.ok();
    assert_eq!(state["frozenWatches"], json!([{"group": "", "resource": "configmaps"}]));
    api.post("/debug/faults", &json!({"resource": "configmaps", "cutWatches": true})).await.ok();
    assert_eq!(watch.next().await, None);
    api.delete("/debug/faults", &json!(null)).await.ok();
    let mut watch = api.watch(&core("configmaps")).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
}

#[tokio::test]
async fn watches_end_with_an_error_event() {
    let api = with_faults();
    let mut watch = api.watch(&core("configmaps")).await;
    api.post("/debug/faults", &json!({"resource": "configmaps", "failWatches": 410})).await.ok();
    let event = watch.next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn stale_lists_show_the_state_at_the_time_of_the_injection() {
    let api = with_faults();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    let stale = api.get(&core("configmaps")).await.ok();
    api.post("/debug/faults", &json!({"resource": "configmaps", "staleLists": true, "count": 2})).await.ok();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "b"}})).await.ok();
    for query in ["", "?resourceVersion=0"] {
        let list = api.get(&core(&format!("configmaps{query}"))).await.ok();
        assert_eq!(list["items"], stale["items"]);
        assert_eq!(list["metadata"]["resourceVersion"], stale["metadata"]["resourceVersion"]);
    }
    let current = api.get(&core("configmaps")).await.ok();
    assert_eq!(current["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn hanging_request_is_executed_if_asked_for() {
    let api = with_faults();
    let fault = json!({"verb": "create", "resource": "configmaps", "hang": true, "afterwards": true});
    api.post("/debug/faults", &fault).await.ok();
    let body = json!({"metadata": {"name": "a"}});
    assert!(api.post(&core("configmaps"), &body).now_or_never().is_none(), "the answer is lost");
    api.get(&core("configmaps/a")).await.ok();
    api.post("/debug/faults", &json!({"verb": "delete", "resource": "configmaps", "hang": true})).await.ok();
    assert!(api.delete(&core("configmaps/a"), &json!(null)).now_or_never().is_none());
    api.get(&core("configmaps/a")).await.ok();
}

#[tokio::test]
async fn faults_over_http_are_validated_and_listed() {
    let api = with_faults();
    for (fault, problem) in [
        (json!({}), "is required"),
        (json!({"code": 500, "hang": true}), "only one of"),
        (json!({"code": 200}), "from 400 to 599"),
        (json!({"code": 500, "cuont": 2}), "; did you mean count?"),
        (json!({"code": 70_000}), "expected a whole number from 0 to 65535"),
        (json!({"code": 500, "count": 0}), "count must be"),
        (json!({"delayMillis": 600_001}), "delayMillis must be"),
        (json!({"delayMillis": 1, "afterwards": true}), "afterwards needs"),
        (json!({"compact": true}), "need a resource"),
        (json!({"code": 500, "name": "x".repeat(513)}), "at most 512 bytes"),
        (json!({"resource": "gadgets", "compact": true}), "is not served"),
        (json!({"verb": "get", "staleLists": true}), "verb list only"),
    ] {
        let answer = api.post("/debug/faults", &fault).await.fails(400, "BadRequest");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains(problem), "{fault}: {message}");
    }
    let fault = json!({"verb": "get", "resource": "pods", "code": 503, "count": 7, "retryAfterSeconds": 2});
    let answer = api.post("/debug/faults", &fault).await.ok();
    assert_eq!(answer, json!({"warnings": []}));
    let active = api.get("/debug/faults").await.ok();
    let fault = &active["faults"][0];
    assert_eq!((&fault["verb"], &fault["remaining"]), (&json!("get"), &json!(7)), "{active}");
    assert_eq!(fault["effect"], json!({"code": 503, "afterwards": false, "retryAfterSeconds": 2}));
}

#[tokio::test]
async fn a_fault_for_a_resource_that_is_not_served_yet_has_a_warning() {
    let api = with_faults();
    let warnings = async |fault: Value| {
        api.post("/debug/faults", &fault).await.ok()["warnings"].as_array().cloned().unwrap_or_default()
    };
    let [warning] = &warnings(json!({"resource": "pod", "code": 500})).await[..] else {
        panic!("one warning")
    };
    assert_eq!(
        warning,
        "no resource \"pod\" is served, so the fault applies to nothing yet; did you mean pods?"
    );
    assert_eq!(warnings(json!({"resource": "deployments", "group": "", "code": 500})).await.len(), 1);
    assert!(warnings(json!({"resource": "deployments", "group": "apps", "code": 500})).await.is_empty());
    assert!(warnings(json!({"resource": "deployments", "code": 500})).await.is_empty());
}
