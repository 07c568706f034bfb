//! A server that fails, or goes away and comes back with nothing of what it knew: the host says so, and takes up again.

use serde_json::json;

use crate::harness::{ApiServer, Guest, Host, Options, Server};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_empty_is_watched_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    // Where a machine has more than one loopback address, nobody else takes this one's port while no server has it.
    let address = if cfg!(target_os = "linux") { "127.0.0.2:0" } else { "127.0.0.1:0" };
    // With TLS each server has an authority and a token of its own, which a host that runs does not learn.
    let first = ApiServer::start(address, &kubeconfig, &["--insecure-http"]);
    let address = first.address.clone();
    let host = Host::start_with(Options { kubeconfig: Some(kubeconfig.clone()), ..Options::default() }).await;
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    for number in 0..20 {
        // The first server's versions get ahead of those that the second will give.
        host.server.script(&format!("old-{number}"), "copy:old-record").await;
    }
    // Each of them: a server that goes before the host has heard of an object leaves nothing to be told of its deletion.
    host.wait("the first server's objects to be reconciled", || async {
        said_of_each_old_object(&host, "reconcile").await.then_some(())
    })
    .await;

    drop(first);
    host.wait_for_plugin("conformance", "trouble", |plugin| {
        plugin["state"] == "running"
            && plugin["error"].as_str().is_some_and(|error| error.contains("watch \""))
    })
    .await;

    let _second = ApiServer::start(&address, &kubeconfig, &["--insecure-http"]);
    let server = Server::new(kubeconfig, false).await;
    server.script("new", "copy:new-record").await;
    host.wait("the second server's object to be reconciled", || async {
        server.data("new-record").await.contains_key("version").then_some(())
    })
    .await;
    host.wait_for_plugin("conformance", "no trouble", |plugin| plugin["error"] == json!("")).await;
    // What the first server had is gone from the cache, and the plugin was told.
    host.wait("the deletions in the plugin's log", || async {
        said_of_each_old_object(&host, "gone").await.then_some(())
    })
    .await;
}

/// Whether the plugin has logged the message for each of the first server's twenty objects.
async fn said_of_each_old_object(host: &Host, message: &str) -> bool {
    let log = String::from_utf8(host.pilothouse(&["logs", "conformance"]).stdout).expect("text");
    let of = |number| {
        let object = format!("/old-{number}\"");
        log.lines().any(|line| line.contains(&format!(": {message}")) && line.contains(&object))
    };
    (0..20).all(of)
}

/// A layer below that repeats a write would hide that the first one may have happened: the plugin has to learn of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_the_server_could_not_answer_is_not_repeated_behind_the_plugins_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let _server = ApiServer::start("127.0.0.1:0", &kubeconfig, &[]);
    let host = Host::start_with(Options { kubeconfig: Some(kubeconfig), ..Options::default() }).await;
    host.drop_in("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    let fault = json!({"verb": "patch", "resource": "configmaps", "code": 503, "count": 1});
    let request =
        http::Request::post("/debug/faults").body(fault.to_string().into_bytes()).expect("a request");
    host.server.client.request_text(request).await.expect("armed");
    host.server.script("one", "copy:record").await;
    host.wait("the record", || async {
        host.server.data("record").await.contains_key("version").then_some(())
    })
    .await;
    let plugin = host
        .wait_for_plugin("conformance", "success", |plugin| plugin["counters"]["succeeded"] != json!(0))
        .await;
    assert_eq!(plugin["counters"]["errors"], 1, "the plugin saw the failure, and was retried: {plugin:#}");
}
