//! `pilothouse size`, with the embedded API server of `dev`.

use std::fs;

use serde_json::{Value, json};

use crate::binary::{assert_fails, assert_succeeds, wait_for};
use crate::check::write_plugin;
use crate::host::Dev;

#[tokio::test(flavor = "multi_thread")]
async fn watched_objects_are_counted_and_the_resources_are_printed_in_each_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let map = |number: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}"), "namespace": "shop", "labels": {"a": "b"}}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let manifests: Vec<String> =
        std::iter::once(namespace).chain((0..70).map(map)).map(|object| object.to_string()).collect();
    fs::write(folder.path().join("objects.yaml"), manifests.join("\n---\n")).expect("written");
    let watches = json!({"watches": [
        {"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self", "namespaces": ["shop"], "labelSelector": "a=b"}
    ]});
    write_plugin(folder.path(), &watches, &json!({}));
    let dev = Dev::start(
        folder.path(),
        &["--cache-dir", "cache", "--apply", "objects.yaml", "--kubeconfig-out", "kubeconfig"],
    );
    wait_for(
        "a ready host",
        || dev.log(),
        || async { dev.get("/readyz").await.filter(|response| response.body == "ok") },
    )
    .await;
    let size = |format: &str| {
        assert_succeeds(folder.path(), &["size", "plugin.wasm", "--kubeconfig", "kubeconfig", "-o", format])
            .stdout
    };
    let found: Value = serde_json::from_str(&size("json")).expect("JSON");
    assert_eq!(found["watches"][0]["objects"], 70, "{found:#}");
    assert!(found["watches"][0]["bytesPerObject"].as_u64() > Some(100), "{found:#}");
    let yaml: Value = serde_saphyr::from_str(&size("yaml")).expect("YAML");
    assert_eq!(yaml["resources"], found["resources"]);
    let request = found["resources"]["requests"]["memory"].as_str().expect("a quantity");
    assert!(size("table").contains(&format!("memory {request}")));
}

#[test]
fn size_needs_a_cluster_and_plugins() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_fails(folder.path(), &["size"], 2, &["FILE.wasm"]);
    assert_fails(folder.path(), &["size", "a.wasm", "--kubeconfig", "absent"], 2, &["kubeconfig absent"]);
}
