//! The example `two-observers`: a synchronous and an asynchronous observer of one shared watch.

use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::harness::{Guest, Host};

async fn wait_for_line(host: &Host, text: &str) {
    host.wait(text, || async {
        let log = String::from_utf8(host.pilothouse(&["logs", "two-observers"]).stdout).expect("text");
        log.contains(text).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_observers_of_one_watch_each_receive_what_they_select() {
    let host = Host::start().await;
    host.install_plugin("two-observers", &Guest::TwoObservers.wasm());
    host.wait_for_state("two-observers", "running").await;
    let maps = host.server.config_maps();
    let make = async |name: &str, team: &str, data: serde_json::Value| {
        let manifest = json!({"metadata": {"name": name, "labels": {"team": team}}, "data": data});
        let map = serde_json::from_value(manifest).expect("a config map");
        maps.create(&PostParams::default(), &map).await.expect("created");
    };
    let key = |name: &str| format!("{}/{name}", host.server.namespace);
    make("ann", "blue", json!({"greeting": "good morning"})).await;
    make("rob", "red", json!({})).await;
    wait_for_line(&host, &format!("sync: blue {} added", key("ann"))).await;
    wait_for_line(&host, &format!("async: blue {} greets 0 of its team", key("ann"))).await;
    wait_for_line(&host, &format!("sync: red {} added", key("rob"))).await;

    // The asynchronous observer is retried until it succeeds. The synchronous observer receives each change once.
    make("tim", "blue", json!({})).await;
    wait_for_line(&host, &format!("{} has no greeting yet", key("tim"))).await;
    // Waits for the synchronous observer, because it would otherwise receive both changes merged into one.
    wait_for_line(&host, &format!("sync: blue {} added", key("tim"))).await;
    host.server.set_data("tim", "greeting", "hello").await;
    wait_for_line(&host, &format!("sync: blue {} updated", key("tim"))).await;
    wait_for_line(&host, &format!("async: blue {} greets 1 of its team", key("tim"))).await;

    maps.delete("rob", &DeleteParams::default()).await.expect("deleted");
    wait_for_line(&host, &format!("sync: red {} deleted", key("rob"))).await;
    let metrics = host.get("/metrics").await.1;
    assert!(metrics.contains("blue_changes_total"), "{metrics}");
    if !host.server.skip_if_external("the test counts watches") {
        assert_eq!(host.server.request_count("watch", "v1/configmaps").await, 1, "one watch for both");
    }
}
