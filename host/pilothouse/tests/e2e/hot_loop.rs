//! A plugin that starts itself again and again is found, named and slowed down; those that come to rest are not.

use crate::harness::{Guest, Host};

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_flips_a_field_is_reported_and_slowed_down_until_it_stops() {
    let host = Host::start().await;
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.script("calm", "copy:calm-record").await;
    host.server.script("flipping", "flip").await;

    let plugin = host
        .wait_for_plugin("conformance", "the report", |plugin| {
            plugin["error"].as_str().is_some_and(|error| error.contains("hot loop"))
        })
        .await;
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

    // A loop at full speed would have made hundreds of rounds in the time that five of another key take.
    for round in 0..5 {
        let changed = host.server.set_data("calm", "round", &round.to_string()).await;
        let version = changed.metadata.resource_version.expect("a version");
        host.wait("the other key to be reconciled", || async {
            (host.server.data("calm-record").await.get("resourceVersion") == Some(&version)).then_some(())
        })
        .await;
    }
    assert!(host.log().contains("the next round waits 1s"), "{}", host.log());

    // What somebody else changes does not wait, and a reconcile that writes nothing ends it.
    host.server.set_data("flipping", "action", "log:at rest").await;
    host.wait_until_said("conformance", "at rest", 1).await;
    host.wait_for_plugin("conformance", "no trouble", |plugin| plugin["error"] == "").await;
    assert_eq!(host.plugin("conformance").await["counters"]["hotLoops"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_writes_a_status_and_comes_to_rest_is_not_reported() {
    let host = Host::start().await;
    if host.server.skips_absent_kinds() {
        return;
    }
    host.drop_in("sample-controller", &Guest::SampleController.wasm());
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
    let plugin = host
        .wait_for_plugin("sample-controller", "all of them", |plugin| {
            plugin["counters"]["succeeded"].as_u64() >= Some(30) && plugin["queueDepth"] == 0
        })
        .await;
    assert_eq!(plugin["counters"]["hotLoops"], 0, "{plugin:#}");
    assert_eq!(plugin["error"], "", "{plugin:#}");
}
