//! Plugins that run but cannot do their work, or wait: what the status and the readiness say.

use std::fs;

use http::Request;
use serde_json::{Value, json};

use crate::harness::{Guest, Host, Options, wat};

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_whose_credentials_are_refused_is_failing_until_they_are_accepted() {
    let host = Host::start_with(Options { test_faults: true, ..Options::default() }).await;
    if host.server.skip_if_external("the server does not support fault injection") {
        return;
    }
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_plugin("conformance", "ready", |plugin| plugin["ready"] == true).await;
    assert_eq!(host.get("/readyz/plugins").await, (200, "ok".into()));
    let fault =
        json!({"verb": "patch", "resource": "configmaps", "name": "record", "code": 401, "count": 1_000_000});
    let faults = async |request: http::request::Builder, body: &Value| {
        let request = request.uri("/debug/faults").body(body.to_string().into_bytes()).expect("a request");
        host.server.client.request_text(request).await.expect("taken");
    };
    faults(Request::builder().method("POST"), &fault).await;
    host.server.create_script("one", "copy:record").await;
    let plugin = host
        .wait_for_plugin("conformance", "failing, with its key in backoff", |plugin| {
            plugin["failing"] == true && plugin["keysInBackoff"] == 1
        })
        .await;
    assert_eq!((&plugin["state"], &plugin["ready"]), (&json!("running"), &json!(false)), "{plugin:#}");
    assert!(plugin["consecutiveErrors"].as_u64() >= Some(3), "{plugin:#}");
    let last = &plugin["lastError"];
    assert_eq!(last["key"], format!("{}/one", host.server.namespace), "{plugin:#}");
    assert!(last["message"].as_str().is_some_and(|message| message.contains("401")), "{plugin:#}");
    let status = String::from_utf8(host.pilothouse(&["status", "conformance"]).stdout).expect("text");
    for part in [" failing ", "errors in a row", "401"] {
        assert!(status.contains(part), "{part}\n{status}");
    }
    assert_eq!(host.get("/readyz").await, (200, "ok".into()), "the host can do no more");
    let (code, problems) = host.get("/readyz/plugins").await;
    assert!(code == 503 && problems.starts_with("conformance: failing: "), "{code} {problems}");

    faults(Request::builder().method("DELETE"), &Value::Null).await;
    host.wait_for_plugin("conformance", "ready again", |plugin| {
        plugin["ready"] == true && plugin["consecutiveErrors"] == 0 && plugin["keysInBackoff"] == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_waits_is_not_ready_but_its_host_is() {
    let host = Host::start().await;
    let watch =
        json!({"name": "things", "apiVersion": "example.com/v1", "kind": "Nothing", "trigger": "self"});
    let descriptor = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": [watch]});
    host.write_sidecar("waits", &json!({"config": descriptor}).to_string());
    host.install_plugin("waits", &wat("echo"));
    let plugin = host.wait_for_state("waits", "waiting").await;
    assert_eq!(plugin["ready"], false);
    host.wait("the host to be ready", || async { (host.get("/readyz").await.0 == 200).then_some(()) }).await;
    let (code, problems) = host.get("/readyz/plugins").await;
    assert!(code == 503 && problems.starts_with("waits: waiting: watch \"things\""), "{code} {problems}");
    host.write_sidecar("waits", "enabled: false\n");
    host.wait_for_state("waits", "stopped").await;
    assert_eq!(host.get("/readyz/plugins").await, (200, "ok".into()), "it has no work to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_plugin_is_listed_as_removed_and_not_as_a_problem() {
    let host = Host::start().await;
    host.install_plugin("plugin", &wat("done"));
    host.wait_for_state("plugin", "running").await;
    fs::remove_file(host.plugins().join("plugin.wasm")).expect("removed");
    let plugin = host.wait_for_state("plugin", "stopped").await;
    assert_eq!(plugin["removed"], true, "{plugin:#}");
    let status = String::from_utf8(host.pilothouse(&["status"]).stdout).expect("text");
    assert!(status.contains(" removed ") && !status.contains("its file was removed"), "{status}");
    let (_, page) = host.get("/").await;
    assert!(page.contains("removed</span>") && !page.contains("class=\"problem\""), "{page}");
}
