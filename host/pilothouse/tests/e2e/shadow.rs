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

/// Assembles a plugin that creates the object in this field of each ConfigMap. Its descriptor is its configuration.
fn creating(field: &str) -> Vec<u8> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/src/world/tests/guest.wat");
    let text = fs::read_to_string(source).expect("a guest").replace("/data/first", field);
    wat::parse_str(&text).expect("a guest")
}

/// Starts a host with such a plugin and a version in its shadow, and creates a ConfigMap with the Leases `first` and `other`.
async fn start_creating(field: &str, shadow: &[u8]) -> (Host, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("new.wasm");
    fs::write(&file, shadow).expect("written");
    let flag: &'static str = Box::leak(format!("plugin={}", file.display()).into_boxed_str());
    let host = Host::start_with(Options { flags: vec!["--shadow", flag], ..Options::default() }).await;
    let namespace = host.server.namespace.clone();
    let descriptor = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": "leases", "version": "1.0.0",
        "watches": [{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace], "labelSelector": "leases=yes",
            "trigger": "self"}],
        "writes": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}],
    });
    host.write_sidecar("plugin", &json!({"config": descriptor}).to_string());
    host.install_plugin("plugin", &creating(field));
    host.wait_for_state("plugin", "running").await;
    let lease = |name: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": namespace},
        })
        .to_string()
    };
    let manifest = json!({
        "metadata": {"name": "leases", "labels": {"leases": "yes"}},
        "data": {"first": lease("first"), "other": lease("other")},
    });
    host.server.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &manifest).await;
    (host, folder)
}

/// Returns the names of the Leases in the test's namespace.
async fn leases(host: &Host) -> Vec<Value> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", host.server.namespace);
    let list = host.server.get(&path).await;
    let items = list["items"].as_array().cloned().expect("a list");
    items.iter().map(|lease| lease["metadata"]["name"].clone()).collect()
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
async fn the_writes_of_a_shadow_are_compared_and_not_sent() {
    let (host, _folder) = start_creating("/data/first", &creating("/data/other")).await;
    let differed = |plugin: &Value| plugin["shadow"]["differed"].as_u64() > Some(0);
    let plugin = host.wait_for_plugin("plugin", "a difference", differed).await;
    let shadow = &plugin["shadow"];
    assert_eq!((&shadow["agreed"], &shadow["error"]), (&json!(0), &Value::Null), "{plugin:#}");
    let difference = &shadow["differences"][0];
    let key = format!("{}/leases", host.server.namespace);
    assert_eq!((&difference["watch"], &difference["key"]), (&json!("maps"), &json!(key)), "{plugin:#}");
    for (version, object) in [("running", "first"), ("shadow", "other")] {
        let write = difference[version].as_str().unwrap_or_default();
        assert!(write.contains("create") && write.contains(object), "{plugin:#}");
    }
    assert_eq!(leases(&host).await, ["first"], "the shadow's write is not sent");
    let (_, scrape) = host.get("/metrics").await;
    let series = r#"pilothouse_plugin_shadow_reconciles_total{controller="plugin",result="differed"}"#;
    assert!(scrape.lines().any(|line| line.starts_with(series) && !line.ends_with(" 0")), "{scrape}");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_writes_of_a_shadow_agree_and_are_sent_once() {
    let shadow = another_version(&creating("/data/first"), 1);
    let (host, _folder) = start_creating("/data/first", &shadow).await;
    let agreed = |plugin: &Value| plugin["shadow"]["agreed"].as_u64() > Some(0);
    let plugin = host.wait_for_plugin("plugin", "an agreement", agreed).await;
    assert_eq!(
        (&plugin["shadow"]["differed"], &plugin["shadow"]["skipped"]),
        (&json!(0), &json!(0)),
        "{plugin:#}"
    );
    assert_eq!(leases(&host).await, ["first"]);
    if host.server.skip_if_external("it counts the requests of all clients") {
        return;
    }
    assert_eq!(
        host.server.request_count("create", "coordination.k8s.io/v1/leases").await,
        1,
        "only the running version's write"
    );
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
