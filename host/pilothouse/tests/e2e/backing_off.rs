//! A plugin that keeps failing backs off exponentially, reports it, and loses no work.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Guest, Host, Options, wat};

#[tokio::test(flavor = "multi_thread")]
async fn a_trapping_plugin_backs_off_alone_until_its_file_changes() {
    // With the hook, a lost key is not requeued by the reload, so the test would notice it.
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    host.install_plugin("faulty", &wat("trap"));
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    // The state `running` may be over at once, because ConfigMaps of the server's own are reconciled, too.
    host.server.create_script("one", "copy:one-record").await;

    let faulty = host.wait_for_state("faulty", "backing-off").await;
    let error = faulty["error"].as_str().expect("text");
    assert!(error.contains("faults in a row") && error.contains("unreachable"), "{error}");
    assert!(!error.contains('\n'), "{error}");
    let (next_try, since) =
        (faulty["nextTry"].as_str().expect("a time"), faulty["since"].as_str().expect("a time"));
    assert!(error.contains(next_try) || error.contains("as soon as"), "{error} {next_try}");
    assert!(since <= next_try, "{since} {next_try}");
    let status = String::from_utf8(host.pilothouse(&["status"]).stdout).expect("text");
    assert!(status.contains("backing-off since 2") && status.contains("faults in a row"), "{status}");
    let (_, metrics) = host.get("/metrics").await;
    for line in [
        "pilothouse_plugin_state{controller=\"faulty\",plugin=\"faulty\",state=\"backing-off\"} 1",
        "pilothouse_plugin_state{controller=\"faulty\",plugin=\"faulty\",state=\"running\"} 0",
        "pilothouse_plugin_state{controller=\"conformance\",plugin=\"conformance\",state=\"running\"} 1",
        "pilothouse_plugin_transitions_total{controller=\"faulty\",plugin=\"faulty\",state=\"backing-off\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert_eq!(host.get("/readyz").await.0, 200);

    // The other plugin is not affected.
    host.wait("the healthy plugin", || async {
        host.server.data("one-record").await.contains_key("version").then_some(())
    })
    .await;
    let event = host
        .wait("the Event about it", || async {
            let events = host.server.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
            events["items"].as_array()?.iter().find(|event| event["reason"] == "BackingOff").cloned()
        })
        .await;
    assert_eq!(event["type"], "Warning");
    assert_eq!(
        (&event["regarding"]["apiVersion"], &event["regarding"]["kind"], &event["regarding"]["name"]),
        (&Value::from("pilothouse.dev/v1alpha1"), &Value::from("Plugin"), &Value::from("faulty"))
    );

    host.install_plugin("faulty", &wat("done"));
    host.wait_for_plugin("faulty", "the pending key to be reconciled by the new version", |plugin| {
        plugin["state"] == "running" && plugin["counters"]["succeeded"].as_u64() >= Some(1)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_load_errors_are_retried() {
    let host = Host::start_with(Options { test_faults: true, ..Options::default() }).await;
    if host.server.skip_if_external("the server does not support fault injection") {
        return;
    }
    // The fault stays until the test removes it, so that the test cannot miss the `backing-off` state.
    let fault = json!({
        "verb": "patch", "group": "apiextensions.k8s.io", "resource": "customresourcedefinitions", "count": 1000, "code": 403
    });
    let faults = async |request: http::request::Builder, body: &Value| {
        let request = request.uri("/debug/faults").body(body.to_string().into_bytes()).expect("a request");
        host.server.client.request_text(request).await.expect("taken");
    };
    faults(http::Request::builder().method("POST"), &fault).await;
    host.write_sidecar("sample", "grants: {crds: true}\n");
    host.install_plugin("sample", &Guest::SampleController.wasm());
    let plugin = host
        .wait_for_plugin("sample", "another failure", |plugin| {
            plugin["state"] == "backing-off" && plugin["counters"]["refusedLoads"].as_u64() >= Some(2)
        })
        .await;
    let error = plugin["error"].as_str().expect("text");
    assert!(error.contains("was refused") && error.contains("tried again"), "{error}");
    faults(http::Request::builder().method("DELETE"), &Value::Null).await;
    let plugin = host.wait_for_state("sample", "running").await;
    assert_eq!((&plugin["error"], &plugin["counters"]["loads"]), (&json!(""), &json!(1)), "{plugin:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_crd_is_applied_again() {
    let host = Host::start().await;
    if host.server.skip_if_crds_exist() {
        return;
    }
    host.write_sidecar("sample", "grants: {crds: true}\n");
    host.install_plugin("sample", &Guest::SampleController.wasm());
    host.wait_for_state("sample", "running").await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.samplecontroller.k8s.io";
    let before = host.server.get(path).await["metadata"]["uid"].clone();
    let request = http::Request::delete(path).body(Vec::new()).expect("a request");
    host.server.client.request_text(request).await.expect("deleted");
    host.wait("the CRD to be recreated", || async {
        let now = host.server.get(path).await["metadata"]["uid"].clone();
        (now.is_string() && now != before).then_some(())
    })
    .await;
    assert!(host.log().contains("was deleted; it is being applied again"), "{}", host.log());
    let foo = json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": {"name": "after"},
        "spec": {"deploymentName": "after", "replicas": 1}
    });
    let collection = host.server.path("/apis/samplecontroller.k8s.io/v1alpha1", "foos", "");
    host.wait("a Foo to be accepted", || async {
        let request = http::Request::post(collection.trim_end_matches('/'))
            .header("content-type", "application/json")
            .body(foo.to_string().into_bytes())
            .expect("a request");
        host.server.client.request_text(request).await.is_ok().then_some(())
    })
    .await;
    let deployment = host.server.path("/apis/apps/v1", "deployments", "after");
    host.wait("its Deployment", || async { host.server.get(&deployment).await.is_object().then_some(()) })
        .await;
    host.wait_for_plugin("sample", "no error", |plugin| plugin["error"] == "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_the_plugins_directory_away_and_back_stops_no_plugin() {
    let host = Host::start().await;
    let plugins = host.plugins();
    let away = plugins.with_file_name("away");
    host.install_plugin("plugin", &wat("done"));
    host.wait_for_generation("plugin", 1).await;
    fs::rename(&plugins, &away).expect("moved away");
    host.wait("the host to notice", || async { host.log().contains("cannot be read").then_some(()) }).await;
    host.server.create_script("meanwhile", "").await;
    host.wait_for_plugin("plugin", "work meanwhile", |plugin| {
        plugin["state"] == "running" && plugin["counters"]["succeeded"].as_u64() >= Some(1)
    })
    .await;
    fs::rename(&away, &plugins).expect("moved back");
    host.install_plugin("plugin", &wat("trap"));
    // Ignores the state: the version may already have trapped and be backing off.
    host.wait_for_plugin("plugin", "the version that traps", |plugin| plugin["generation"] == 2).await;

    // Replaces the directory by another one; the host may never observe that it was missing.
    let other = plugins.with_file_name("other");
    fs::create_dir(&other).expect("made");
    fs::write(other.join("plugin.wasm"), wat("done")).expect("written");
    fs::rename(&plugins, &away).and_then(|()| fs::rename(&other, &plugins)).expect("exchanged");
    host.wait_for_generation("plugin", 3).await;
}
