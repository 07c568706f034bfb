//! API servers that fail, or restart without their data: the host reports it and recovers.

use serde_json::json;

use crate::harness::{ApiServer, Guest, Host, Options, Server};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_without_its_data_is_relisted() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    // On Linux, uses another loopback address, so that no other test takes the port while no server listens on it.
    let address = if cfg!(target_os = "linux") { "127.0.0.2:0" } else { "127.0.0.1:0" };
    // With TLS, each server would have its own CA and token, which a running host does not reload.
    let first = ApiServer::start(address, &kubeconfig, &["--insecure-http"]);
    let address = first.address.clone();
    let host = Host::start_with(Options { kubeconfig: Some(kubeconfig.clone()), ..Options::default() }).await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    for number in 0..20 {
        // Makes the first server's resource versions higher than those of the second.
        host.server.create_script(&format!("old-{number}"), "copy:old-record").await;
    }
    // Waits for each object: the plugin is notified of the deletion only of objects that it has seen.
    host.wait("the first server's objects to be reconciled", || async {
        is_logged_for_each_old_object(&host, "reconcile").await.then_some(())
    })
    .await;

    drop(first);
    host.wait_for_plugin("conformance", "an error of the watch", |plugin| {
        plugin["state"] == "running"
            && plugin["error"].as_str().is_some_and(|error| error.contains("watch \""))
            && plugin["failing"] == true
            && plugin["ready"] == false
    })
    .await;
    assert_eq!(host.get("/readyz").await, (200, "ok".into()), "another replica could not do better");
    let (code, problems) = host.get("/readyz/plugins").await;
    assert!(code == 503 && problems.contains("conformance: failing: watch \""), "{code} {problems}");

    let _second = ApiServer::start(&address, &kubeconfig, &["--insecure-http"]);
    let server = Server::new(kubeconfig, false).await;
    server.create_script("new", "copy:new-record").await;
    host.wait("the second server's object to be reconciled", || async {
        server.data("new-record").await.contains_key("version").then_some(())
    })
    .await;
    host.wait_for_plugin("conformance", "no error", |plugin| plugin["error"] == json!("")).await;
    // The first server's objects are removed from the cache, and the plugin is notified.
    host.wait("the deletions in the plugin's log", || async {
        is_logged_for_each_old_object(&host, "gone").await.then_some(())
    })
    .await;
}

/// Returns whether the plugin has logged the message for each of the first server's twenty objects.
async fn is_logged_for_each_old_object(host: &Host, message: &str) -> bool {
    let log = String::from_utf8(host.pilothouse(&["logs", "conformance"]).stdout).expect("text");
    let is_logged = |number| {
        let object = format!("/old-{number}\"");
        log.lines().any(|line| line.contains(&format!(": {message}")) && line.contains(&object))
    };
    (0..20).all(is_logged)
}

/// A retry in the HTTP client would hide from the plugin that the first attempt may have succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_is_not_retried_below_the_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let _server = ApiServer::start("127.0.0.1:0", &kubeconfig, &[]);
    let host = Host::start_with(Options { kubeconfig: Some(kubeconfig), ..Options::default() }).await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    let fault = json!({"verb": "patch", "resource": "configmaps", "code": 503, "count": 1});
    let request =
        http::Request::post("/debug/faults").body(fault.to_string().into_bytes()).expect("a request");
    host.server.client.request_text(request).await.expect("accepted");
    host.server.create_script("one", "copy:record").await;
    host.wait("the record", || async {
        host.server.data("record").await.contains_key("version").then_some(())
    })
    .await;
    let plugin = host
        .wait_for_plugin("conformance", "success", |plugin| plugin["counters"]["succeeded"] != json!(0))
        .await;
    assert_eq!(plugin["counters"]["errors"], 1, "the plugin saw the failure and was retried: {plugin:#}");
}
