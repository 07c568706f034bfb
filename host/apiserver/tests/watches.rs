//! Watches: their start, their events, and their end.

mod api;

use std::time::Duration;

use api::{Api, core, names, version};
use pilothouse_apiserver::{ApiServer, Clock, Status};
use serde_json::{Value, json};

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn watch_resumes_after_its_resource_version_without_loss_or_repetition() {
    let api = Api::new();
    let first = api.post(&core("configmaps"), &config_map("a")).await.ok();
    api.post(&core("configmaps"), &config_map("b")).await.ok();
    api.merge(&core("configmaps/a"), &json!({"data": {"x": "1"}})).await.ok();
    api.delete(&core("configmaps/b"), &json!(null)).await.ok();
    let mut watch = api.watch(&core(&format!("configmaps?resourceVersion={}", version(&first)))).await;
    for expected in ["ADDED b", "MODIFIED a", "DELETED b"] {
        assert_eq!(watch.next_summary().await, expected);
    }
    api.post(&core("configmaps"), &config_map("c")).await.ok();
    let event = watch.next().await.expect("an event");
    assert_eq!(
        (&event["object"]["kind"], &event["object"]["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
}

#[tokio::test]
async fn deleted_event_has_the_last_state_and_a_new_resource_version() {
    let api = Api::new();
    let created =
        api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await.ok();
    let mut watch = api.watch(&core(&format!("configmaps?resourceVersion={}", version(&created)))).await;
    api.delete(&core("configmaps/a"), &json!(null)).await.ok();
    let event = watch.next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["data"]["x"]), (&json!("DELETED"), &json!("1")));
    assert_ne!(version(&event["object"]), version(&created));
}

#[tokio::test]
async fn watch_without_a_resource_version_starts_with_current_objects() {
    let api = Api::new();
    api.post(&core("configmaps"), &config_map("a")).await.ok();
    for query in ["configmaps", "configmaps?resourceVersion=0"] {
        let mut watch = api.watch(&core(query)).await;
        assert_eq!(watch.next_summary().await, "ADDED a");
    }
}

#[tokio::test]
async fn watch_from_a_compacted_resource_version_gets_410() {
    let api = Api::new();
    let created = api.post(&core("configmaps"), &config_map("a")).await.ok();
    api.post(&core("configmaps"), &config_map("b")).await.ok();
    api.server.compact("", "configmaps");
    let mut watch = api.watch(&core(&format!("configmaps?resourceVersion={}", version(&created)))).await;
    let event = watch.next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!((&event["object"]["kind"], &event["object"]["reason"]), (&json!("Status"), &json!("Expired")));
    assert!(
        event["object"]["message"].as_str().is_some_and(|text| text.starts_with("too old resource version"))
    );
    assert_eq!(watch.next().await, None);
}

/// Returns two servers, the second of which stands for the same server restarted a minute later.
fn restarted() -> (Api, Api) {
    #[derive(Clone, Copy)]
    struct At(&'static str);
    impl Clock for At {
        fn now(&self) -> jiff::Timestamp {
            self.0.parse().expect("a timestamp")
        }
    }
    let at = |time| Api { server: ApiServer::builder().clock(At(time)).build() };
    (at("2026-01-02T03:04:05Z"), at("2026-01-02T03:05:05Z"))
}

#[tokio::test]
async fn watch_from_before_a_restart_gets_410() {
    let (before, after) = restarted();
    let old = version(&before.post(&core("configmaps"), &config_map("a")).await.ok());
    after.post(&core("configmaps"), &config_map("b")).await.ok();
    for known in [old.as_str(), "3"] {
        let mut watch = after.watch(&core(&format!("configmaps?resourceVersion={known}"))).await;
        let event = watch.next().await.expect("an event");
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{known}");
        assert_eq!(event["object"]["reason"], "Expired");
        assert_eq!(watch.next().await, None);
    }
}

#[tokio::test]
async fn lists_handle_resource_versions_from_before_a_restart() {
    let (before, after) = restarted();
    for name in ["a", "b", "c"] {
        before.post(&core("configmaps"), &config_map(name)).await.ok();
    }
    let page = before.get(&core("configmaps?limit=1")).await.ok();
    let (old, next) = (version(&page), page["metadata"]["continue"].as_str().expect("a token"));
    after.post(&core("configmaps"), &config_map("z")).await.ok();
    let newer = after.get(&core(&format!("configmaps?resourceVersion={old}"))).await.ok();
    assert_eq!(names(&newer), ["z"], "what is there now is not older than that");
    let exact = format!("configmaps?resourceVersion={old}&resourceVersionMatch=Exact");
    after.get(&core(&exact)).await.fails(410, "Expired");
    let expired =
        after.get(&core(&format!("configmaps?limit=1&continue={next}"))).await.fails(410, "Expired");
    let token = expired["metadata"]["continue"].as_str().expect("a token to go on with");
    assert_eq!(names(&after.get(&core(&format!("configmaps?continue={token}"))).await.ok()), ["z"]);
}

#[tokio::test]
async fn history_retains_the_configured_number_of_events() {
    let api = Api { server: ApiServer::builder().watch_history(2).build() };
    let mut versions = Vec::new();
    for name in ["a", "b", "c", "d"] {
        versions.push(version(&api.post(&core("configmaps"), &config_map(name)).await.ok()));
    }
    let mut watch = api.watch(&core(&format!("configmaps?resourceVersion={}", versions[1]))).await;
    assert_eq!(watch.next_summary().await, "ADDED c");
    let mut watch = api.watch(&core(&format!("configmaps?resourceVersion={}", versions[0]))).await;
    assert_eq!(watch.next().await.expect("an event")["type"], "ERROR");
}

#[tokio::test]
async fn watch_that_falls_behind_the_history_ends() {
    let api = Api { server: ApiServer::builder().watch_history(4).build() };
    let mut slow = api.watch(&core(&format!("configmaps?resourceVersion={}", api.server.revision()))).await;
    for index in 0..10 {
        api.post(&core("configmaps"), &config_map(&format!("c{index}"))).await.ok();
    }
    assert_eq!(slow.next().await, None);
}

#[tokio::test]
async fn objects_entering_or_leaving_the_selector_are_added_or_deleted() {
    let api = Api::new();
    let now = api.server.revision();
    let mut watch = api.watch(&core(&format!("configmaps?resourceVersion={now}&labelSelector=on"))).await;
    api.post(&core("configmaps"), &config_map("a")).await.ok();
    api.merge(&core("configmaps/a"), &json!({"metadata": {"labels": {"on": "1"}}})).await.ok();
    api.merge(&core("configmaps/a"), &json!({"data": {"x": "1"}})).await.ok();
    let left = api.merge(&core("configmaps/a"), &json!({"metadata": {"labels": {"on": null}}})).await.ok();
    api.delete(&core("configmaps/a"), &json!(null)).await.ok();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "z", "labels": {"on": "1"}}})).await.ok();
    for expected in ["ADDED a", "MODIFIED a"] {
        assert_eq!(watch.next_summary().await, expected);
    }
    let event = watch.next().await.expect("an event");
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["on"], "1", "the state that was selected");
    assert_eq!(version(&event["object"]), version(&left), "the version of the change");
    assert_eq!(watch.next_summary().await, "ADDED z");
}

#[tokio::test]
async fn field_selector_watches_one_object_by_name() {
    let api = Api::new();
    api.post(&core("configmaps"), &config_map("a")).await.ok();
    let mut watch = api.watch(&core("configmaps?fieldSelector=metadata.name%3Db")).await;
    api.merge(&core("configmaps/a"), &json!({"data": {"x": "1"}})).await.ok();
    api.post(&core("configmaps"), &config_map("b")).await.ok();
    assert_eq!(watch.next_summary().await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_while_no_selected_object_changes() {
    let api = Api { server: ApiServer::builder().bookmark_interval(Duration::from_secs(10)).build() };
    let now = api.server.revision();
    let path = core(&format!("configmaps?resourceVersion={now}&allowWatchBookmarks=true&timeoutSeconds=25"));
    let mut watch = api.watch(&path).await;
    let other = api.post(&core("secrets"), &json!({"metadata": {"name": "s"}})).await.ok();
    let bookmark = watch.next().await.expect("a bookmark");
    assert_eq!((&bookmark["type"], &bookmark["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    assert_eq!(version(&bookmark["object"]), version(&other));
    let mut more = 0;
    while watch.next().await.is_some() {
        more += 1;
    }
    assert_eq!(more, 2, "one after 20 s, one before the end at 25 s");
}

#[tokio::test(start_paused = true)]
async fn watch_ends_after_its_timeout() {
    let api = Api::new();
    let mut watch = api.watch(&core("configmaps?timeoutSeconds=3")).await;
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn watch_with_the_largest_timeout_starts() {
    let api = Api::new();
    for seconds in [u64::MAX, i64::MAX.unsigned_abs()] {
        let mut watch = api.watch(&core(&format!("configmaps?timeoutSeconds={seconds}"))).await;
        let name = format!("c{seconds}");
        api.post(&core("configmaps"), &config_map(&name)).await.ok();
        assert_eq!(watch.next_summary().await, format!("ADDED {name}"));
        api.delete(&core(&format!("configmaps/{name}")), &json!(null)).await.ok();
    }
}

#[tokio::test]
async fn initial_events_end_with_an_annotated_bookmark() {
    let api = Api::new();
    api.post(&core("configmaps"), &config_map("a")).await.ok();
    api.post(&core("configmaps"), &config_map("b")).await.ok();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = api.watch(&core(&format!("configmaps?{query}"))).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    assert_eq!(watch.next_summary().await, "ADDED b");
    let end = watch.next().await.expect("a bookmark");
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(version(&end["object"]), api.server.revision().to_string());
    api.delete(&core("configmaps/a"), &json!(null)).await.ok();
    assert_eq!(watch.next_summary().await, "DELETED a");
    let future = "configmaps?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=9999";
    let error = api.watch(&core(future)).await.next().await.expect("an event");
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(504)));
    let path = core("configmaps?watch=true&sendInitialEvents=true");
    api.get(&path).await.fails(422, "Invalid");
}

#[tokio::test]
async fn cut_watches_ends_the_watches_of_one_resource() {
    let api = Api::new();
    let mut maps = api.watch(&core("configmaps")).await;
    let mut secrets = api.watch(&core("secrets")).await;
    api.server.cut_watches("", "configmaps");
    api.post(&core("configmaps"), &config_map("a")).await.ok();
    api.post(&core("secrets"), &json!({"metadata": {"name": "s"}})).await.ok();
    assert_eq!(maps.next().await, None);
    assert_eq!(secrets.next_summary().await, "ADDED s");
    let mut again = api.watch(&core("configmaps")).await;
    assert_eq!(again.next_summary().await, "ADDED a");
}

#[tokio::test]
async fn fail_watches_sends_an_error_event() {
    let api = Api::new();
    let mut watch = api.watch(&core("configmaps")).await;
    api.server.fail_watches("", "configmaps", Status::expired("too old resource version: 1 (2)"));
    let event = watch.next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn watch_as_table_sends_columns_in_the_first_event_only() {
    let api = Api::new();
    let mut body = {
        use http_body_util::Full;
        use tower::ServiceExt;
        let request = http::Request::get(core("configmaps?watch=true"))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Full::<bytes::Bytes>::default())
            .expect("a request");
        let Ok(response) = api.server.service().oneshot(request).await;
        response.into_body()
    };
    for name in ["a", "b"] {
        api.post(&core("configmaps"), &config_map(name)).await.ok();
    }
    let mut events = Vec::new();
    for _ in 0..2 {
        use http_body_util::BodyExt;
        let Some(Ok(frame)) = body.frame().await else { panic!("the watch ended") };
        let event: Value = serde_json::from_slice(&frame.into_data().expect("data")).expect("an event");
        events.push(event);
    }
    assert_eq!(events[0]["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(events[1]["object"]["columnDefinitions"], Value::Null);
    assert_eq!(events[1]["object"]["rows"][0]["cells"][0], "b");
}
