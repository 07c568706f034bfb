//! A new version runs in the shadow of the running one: it is compared, and changes nothing.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Host, Options, another_version, wat};

/// Starts a host with the plugin `plugin` and this version in its shadow. The folder has the file of that version.
async fn start(running: &[u8], shadow: &[u8]) -> (Host, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("new.wasm");
    fs::write(&file, shadow).expect("written");
    // A few bytes for each test.
    let flag: &'static str = Box::leak(format!("plugin={}", file.display()).into_boxed_str());
    let host = Host::start_with(Options { flags: vec!["--shadow", flag], ..Options::default() }).await;
    host.install_plugin("plugin", running);
    host.wait_for_state("plugin", "running").await;
    (host, folder)
}

/// Creates a ConfigMap, and waits until the shadow has compared a reconcile with this result.
async fn compare(host: &Host, result: &str) -> Value {
    let manifest = json!({"metadata": {"name": "compared"}});
    let path = format!("/api/v1/namespaces/{}/configmaps", host.server.namespace);
    host.server.post(&path, &manifest).await;
    host.wait_for_plugin("plugin", result, |plugin| plugin["shadow"][result].as_u64() > Some(0)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_does_the_same_agrees() {
    let done = wat("done");
    let (host, _folder) = start(&done, &another_version(&done, 1)).await;
    let plugin = compare(&host, "agreed").await;
    assert_eq!((&plugin["shadow"]["differed"], &plugin["shadow"]["error"]), (&json!(0), &Value::Null));
    assert_eq!(plugin["shadow"]["version"], "1.0.0");
    assert_ne!(plugin["shadow"]["digest"], plugin["digest"]);
    let (_, scrape) = host.get("/metrics").await;
    let series = r#"pilothouse_plugin_shadow_reconciles_total{controller="plugin",result="agreed"}"#;
    assert!(scrape.lines().any(|line| line.starts_with(series) && !line.ends_with(" 0")), "{scrape}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_traps_differs_and_the_running_version_works() {
    let (host, _folder) = start(&wat("done"), &wat("trap")).await;
    let plugin = compare(&host, "differed").await;
    let difference = &plugin["shadow"]["differences"][0];
    assert_eq!(
        (&difference["watch"], &difference["running"]),
        (&json!("configmaps"), &json!("returns done"))
    );
    assert!(
        difference["shadow"].as_str().is_some_and(|text| text.starts_with("returns fault")),
        "{plugin:#}"
    );
    assert_eq!((&plugin["ready"], &plugin["counters"]["traps"]), (&json!(true), &json!(0)));
    let (status, page) = host.get("/plugins/plugin").await;
    assert!(status == 200 && page.contains("shadow-heading"), "{status} {page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_can_begin_and_end_a_shadow() {
    let host = Host::start().await;
    let done = wat("done");
    fs::create_dir(host.plugins().join("shadows")).expect("created");
    fs::write(host.plugins().join("shadows/new.wasm"), another_version(&done, 1)).expect("written");
    host.write_sidecar("plugin", "shadow: {file: shadows/new.wasm}\n");
    host.install_plugin("plugin", &done);
    host.wait_for_state("plugin", "running").await;
    compare(&host, "agreed").await;
    host.write_sidecar("plugin", "# no shadow\n");
    host.wait_for_plugin("plugin", "no shadow", |plugin| plugin["shadow"].is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_cannot_run_does_not_keep_the_plugin_from_running() {
    let (host, _folder) = start(&wat("done"), b"no wasm").await;
    let plugin = host.plugin("plugin").await;
    assert!(plugin["shadow"]["error"].as_str().is_some_and(|error| !error.is_empty()), "{plugin:#}");
    assert_eq!((&plugin["ready"], &plugin["shadow"]["agreed"]), (&json!(true), &json!(0)));
}
