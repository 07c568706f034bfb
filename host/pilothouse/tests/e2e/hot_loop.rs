//! A plugin that keeps triggering itself is detected, reported and slowed down. A plugin that converges is not.

use serde_json::Value;

use crate::harness::{Guest, Host};

/// Returns whether the status and the counter report a hot loop. The status changes a moment before the counter.
fn is_reported(plugin: &Value) -> bool {
    let error = plugin["error"].as_str().unwrap_or_default();
    error.contains("hot loop") && plugin["counters"]["hotLoops"].as_u64() >= Some(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_flips_a_field_is_reported_and_slowed_down_until_it_stops() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.create_script("calm", "copy:calm-record").await;
    host.server.create_script("flipping", "flip").await;

    let plugin = host.wait_for_plugin("conformance", "the report", is_reported).await;
    let error = plugin["error"].as_str().expect("text");
    assert!(error.contains("flipping") && error.contains("/data/flip changes each time"), "{error}");
    assert_eq!((&plugin["state"], &plugin["counters"]["hotLoops"]), (&"running".into(), &1.into()));
    let event = || async {
        let events = host.server.events().await;
        events.into_iter().find(|event| event.reason.as_deref() == Some("HotLoop"))
    };
    let event = host.wait("an Event about it", event).await;
    assert_eq!(event.regarding.and_then(|object| object.name).as_deref(), Some("flipping"));
    let (_, metrics) = host.get("/metrics").await;
    assert!(metrics.contains("pilothouse_hot_loops_total{controller=\"conformance\"} 1"), "{metrics}");

    // During five rounds of another key, a loop at full speed would run hundreds of rounds.
    for round in 0..5 {
        let changed = host.server.set_data("calm", "round", &round.to_string()).await;
        let version = changed.metadata.resource_version.expect("a version");
        host.wait("the other key to be reconciled", || async {
            (host.server.data("calm-record").await.get("resourceVersion") == Some(&version)).then_some(())
        })
        .await;
    }
    assert!(host.log().contains("the next round waits 1s"), "{}", host.log());

    // A change by another client is not delayed, and a reconcile that writes nothing ends the loop.
    host.server.set_data("flipping", "action", "log:at rest").await;
    host.wait_for_message("conformance", "at rest", 1).await;
    host.wait_for_plugin("conformance", "no error", |plugin| plugin["error"] == "").await;
    assert_eq!(host.plugin("conformance").await["counters"]["hotLoops"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_plugins_that_fight_over_a_field_are_both_reported() {
    let host = Host::start().await;
    let plugins = [("north", "south"), ("south", "north")];
    for (name, _) in plugins {
        host.write_sidecar(name, &format!("config: {{opinion: {name}}}"));
        host.install_plugin(name, &Guest::Conformance.wasm());
    }
    for (name, _) in plugins {
        host.wait_for_state(name, "running").await;
    }
    host.server.create_script("contested", "insist:direction").await;
    for (name, rival) in plugins {
        let plugin = host.wait_for_plugin(name, "the report", is_reported).await;
        let error = plugin["error"].as_str().expect("text");
        assert!(
            error.contains(&format!("this plugin and {rival} answer each other's writes to ")),
            "{error}"
        );
        assert!(
            error.contains("contested") && error.contains("/data/direction changes each time"),
            "{error}"
        );
        assert_eq!((&plugin["state"], &plugin["counters"]["hotLoops"]), (&"running".into(), &1.into()));
    }
    let regarding = || async {
        let events = host.server.events().await;
        let regarding_of = |name: &str| {
            let is_report = |event: &&k8s_openapi::api::events::v1::Event| {
                let note = event.note.as_deref().unwrap_or_default();
                event.reason.as_deref() == Some("HotLoop")
                    && note.contains(&format!("The plugin {name} is in a"))
            };
            events.iter().find(is_report).and_then(|event| event.regarding.as_ref()?.name.clone())
        };
        Some((regarding_of("north")?, regarding_of("south")?))
    };
    let regarding = host.wait("an Event for each plugin", regarding).await;
    assert_eq!(regarding, ("contested".to_owned(), "contested".to_owned()));

    // Removing one plugin ends the loop for both.
    std::fs::remove_file(host.plugins().join("south.wasm")).expect("removed");
    host.wait_for_state("south", "stopped").await;
    let is_north = || async { (host.server.data("contested").await["direction"] == "north").then_some(()) };
    host.wait("the remaining plugin's value", is_north).await;
    host.server.set_data("contested", "note", "at rest").await;
    host.wait_for_plugin("north", "no error", |plugin| plugin["error"] == "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_converges_is_not_reported_as_a_hot_loop() {
    let host = Host::start().await;
    if host.server.skip_if_crds_exist() {
        return;
    }
    host.install_plugin("sample-controller", &Guest::SampleController.wasm());
    host.wait_for_state("sample-controller", "running").await;
    for number in 0..10 {
        let foo = serde_json::json!({"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
            "metadata": {"name": format!("foo-{number}")},
            "spec": {"deploymentName": format!("foo-{number}"), "replicas": 1}});
        let path = host.server.path("/apis/samplecontroller.k8s.io/v1alpha1", "foos", "");
        let path = path.trim_end_matches('/');
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(foo.to_string().into_bytes())
            .expect("a request");
        host.server.client.request_text(request).await.expect("created");
    }
    if host.server.skip_without_nodes().await {
        return;
    }
    // Waits for the last write. The number of reconciles depends on how many changes were merged.
    for number in 0..10 {
        let path =
            host.server.path("/apis/samplecontroller.k8s.io/v1alpha1", "foos", &format!("foo-{number}"));
        host.wait(&format!("the status of foo-{number}"), || async {
            (host.server.get(&path).await["status"]["availableReplicas"] == 1).then_some(())
        })
        .await;
    }
    let plugin =
        host.wait_for_plugin("sample-controller", "an empty queue", |plugin| plugin["queueDepth"] == 0).await;
    assert_eq!(plugin["counters"]["hotLoops"], 0, "{plugin:#}");
    assert_eq!(plugin["error"], "", "{plugin:#}");
}
