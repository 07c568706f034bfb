//! The status server, and the commands that query it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::harness::{Guest, Host, binary};

#[tokio::test(flavor = "multi_thread")]
async fn status_endpoints_show_the_plugins() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    let plugin = host.wait_for_state("conformance", "running").await;
    let members: Vec<_> = plugin.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        members,
        [
            "consecutiveErrors",
            "counters",
            "digest",
            "error",
            "failing",
            "generation",
            "hostMemory",
            "keysInBackoff",
            "name",
            "paused",
            "queueDepth",
            "ready",
            "removed",
            "since",
            "state",
            "version"
        ],
        "the fields are public API"
    );
    assert_eq!(host.get("/healthz").await, (200, "ok".into()));
    assert_eq!(host.get("/readyz").await, (200, "ok".into()));
    let (status, page) = host.get("/").await;
    assert!(status == 200 && page.contains("conformance") && page.contains("running"), "{page}");

    host.server.create_script("one", "copy:record\nevent:hello").await;
    // The queue records the duration after it has released the key, which is after the reconcile is counted.
    let metrics = host
        .wait("the duration of a reconcile", || async {
            let (_, metrics) = host.get("/metrics").await;
            let count = metrics.lines().find_map(|line| {
                line.strip_prefix("workqueue_work_duration_seconds_count{")?.rsplit_once(' ')?.1.parse().ok()
            });
            (count >= Some(1_u64)).then_some(metrics)
        })
        .await;
    for name in [
        "workqueue_depth{",
        "workqueue_adds_total{",
        "workqueue_queue_duration_seconds_bucket{",
        "workqueue_work_duration_seconds_bucket{",
        "workqueue_unfinished_work_seconds{",
        "workqueue_longest_running_processor_seconds{",
        "workqueue_retries_total{",
        "controller_runtime_reconcile_total{",
        "controller_runtime_reconcile_errors_total{",
        "controller_runtime_reconcile_time_seconds_bucket{",
    ] {
        assert!(metrics.contains(name), "{name}\n{metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_what_is_known_of_a_plugin_and_its_keys() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_generation("conformance", 1).await;
    host.server.create_script("retrying", "retry:not yet").await;
    let namespace = &host.server.namespace;
    let link = format!("<a href=\"/plugins/conformance/keys/{namespace}/retrying?watch=");
    let page = host
        .wait("the key with its last error", || async {
            let (_, page) = host.get("/plugins/conformance").await;
            (page.contains(&link) && page.contains("not yet")).then_some(page)
        })
        .await;
    for part in [
        "<span class=\"state found\">found</span>",
        "<span class=\"state running\">running</span>",
        "in sync",
        "configmaps",
        "Requests that the descriptor asks for",
        "<th scope=\"row\">retries</th>",
        "pilothouse logs conformance",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // A reconcile of the key may be running at the first request.
    let page = host
        .wait("the explanation of the key", || async {
            let (_, page) = host.get(&format!("/plugins/conformance/keys/{namespace}/retrying")).await;
            page.contains("<strong>RetryPending</strong>").then_some(page)
        })
        .await;
    assert!(page.contains("reconciled ("), "the journal: {page}");
    let (_, overview) = host.get("/").await;
    assert!(overview.contains("<a href=\"/plugins/conformance\">conformance</a>"), "{overview}");
    let (status, page) = host.get("/plugins/nobody").await;
    assert!(status == 404 && page.contains("no such plugin"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_are_visible_in_metrics_and_debug_endpoint() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.create_script("one", "log:hello").await;
    host.wait_for_plugin("conformance", "a reconcile", |plugin| {
        plugin["counters"]["reconciles"].as_u64() >= Some(1)
    })
    .await;
    let (_, metrics) = host.get("/metrics").await;
    for name in [
        "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"127.0.0.1:",
        "rest_client_request_duration_seconds_bucket{",
        "reflector_watches_total{resource=\"v1/configmaps\",name=\"",
        "pilothouse_informer_store_objects{resource=\"v1/configmaps\",name=\"",
    ] {
        assert!(metrics.contains(name), "{name}\n{metrics}");
    }
    let (status, dump) = host.get("/debug/informers").await;
    assert_eq!(status, 200, "{dump}");
    let dump: Value = serde_json::from_str(&dump).expect("JSON");
    let informers = dump["informers"].as_array().expect("a list");
    let config_maps = informers.iter().find(|informer| informer["path"] == "/api/v1/configmaps");
    let config_maps = config_maps.unwrap_or_else(|| panic!("no informer of config maps: {dump:#}"));
    assert_eq!(
        (&config_maps["phase"], &config_maps["synced"]),
        (&"watching".into(), &true.into()),
        "{dump:#}"
    );
    assert!(config_maps["subscribers"].as_array().is_some_and(|all| !all.is_empty()), "{dump:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_logs_commands_query_a_running_host() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    let status = host.pilothouse(&["status"]);
    let text = String::from_utf8(status.stdout).expect("text");
    assert!(status.status.success() && text.contains("NAME") && text.contains("conformance"), "{text}");
    let status = host.pilothouse(&["status", "--json"]);
    let json: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(json["plugins"][0]["name"], "conformance");
    let one = host.pilothouse(&["status", "conformance", "--json"]);
    let json: Value = serde_json::from_slice(&one.stdout).expect("JSON");
    assert_eq!((&json["name"], &json["ready"]), (&"conformance".into(), &true.into()), "{json:#}");
    let unknown = host.pilothouse(&["status", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no plugin \"nobody\""));

    host.server.create_script("one", "log:hello from the guest").await;
    host.wait("the line in the plugin's log", || async {
        let logs = host.pilothouse(&["logs", "conformance"]);
        String::from_utf8(logs.stdout).expect("text").contains("hello from the guest").then_some(())
    })
    .await;
    let unknown = host.pilothouse(&["logs", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no plugin \"nobody\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn status_watch_prints_a_line_for_each_change() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    let mut command = binary();
    command.args(["status", "conformance", "-w", "--server", &host.status_url]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert!(next().starts_with("NAME"));
    let first = next();
    host.server.create_script("one", "").await;
    let second = next();
    assert!(first.starts_with("conformance") && second.starts_with("conformance"), "{first}\n{second}");
    assert_ne!(first, second);
    child.kill().expect("it runs until it is stopped");
    child.wait().expect("it ends");
}
