//! The status and `check` reject an invalid descriptor with the position of the problem and the remedy.

use serde_json::{Value, json};

use crate::harness::{Host, binary, wat};

/// Returns a descriptor with one watch, with the given members replaced or added.
fn descriptor(members: &Value) -> Value {
    let mut descriptor = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "watches": [{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"}]
    });
    for (name, value) in members.as_object().expect("members") {
        descriptor[name] = value.clone();
    }
    descriptor
}

fn watch(members: &Value) -> Value {
    let mut watch = json!({"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"});
    for (name, value) in members.as_object().expect("members") {
        watch[name] = value.clone();
    }
    json!({"watches": [watch]})
}

/// Returns invalid descriptors: a name, the members, and the position and the remedy that the message must contain.
fn cases() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    vec![
        (
            "a-selector",
            watch(&json!({"labelSelector": "a in b"})),
            "watches[0].labelSelector",
            "key in (a,b)",
        ),
        (
            "a-predicate",
            watch(&json!({"predicate": "object.spec ="})),
            "watches[0].predicate",
            "CEL expression",
        ),
        (
            "a-trigger",
            watch(&json!({"trigger": {"owner": {"watch": "foos"}}})),
            "no watch is called",
            "trigger is \"self\"",
        ),
        (
            "a-namespace",
            watch(&json!({"kind": "Node", "namespaces": ["default"]})),
            "watches.maps: Node is cluster-scoped",
            "leave out namespaces",
        ),
        ("a-typo", watch(&json!({"lableSelector": "a=b"})), "unknown field `lableSelector`", "labelSelector"),
        ("no-watch", json!({"watches": []}), "watches: nothing is watched", "at least one watch"),
        (
            "a-version",
            json!({"apiVersion": "pilothouse.dev/v9"}),
            "\"pilothouse.dev/v9\" is not served",
            "v1alpha1",
        ),
        (
            "an-observer",
            watch(&json!({"notify": true})),
            "watches.maps has notify: true, but the plugin does not export observe",
            "leave notify out",
        ),
        (
            "an-index",
            watch(&json!({"indexes": [{"name": "team", "computed": true}]})),
            "the index \"team\" is computed, but the plugin does not export index",
            "index by label",
        ),
        ("no-trigger", watch(&json!({"trigger": null})), "the plugin would never be called", "trigger: self"),
        (
            "a-crd",
            json!({"crds": [{
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "wrong.example.com"},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object"}}}]}
            }]}),
            "the CRD \"wrong.example.com\" was refused",
            "must be spec.names.plural+\".\"+spec.group",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn status_reports_each_error_with_position_and_remedy() {
    let host = Host::start().await;
    let wasm = wat("echo");
    for (name, members, _, _) in cases() {
        let sidecar = json!({"config": descriptor(&members), "grants": {"crds": true}});
        host.write_sidecar(name, &sidecar.to_string());
        host.install_plugin(name, &wasm);
    }
    host.write_sidecar("a-good-one", &json!({"config": descriptor(&json!({}))}).to_string());
    host.install_plugin("a-good-one", &wasm);
    host.wait_for_state("a-good-one", "running").await;
    for (name, _, place, remedy) in cases() {
        let plugin = host.wait_for_state(name, "failed").await;
        let error = plugin["error"].as_str().expect("text");
        assert!(error.contains(place), "{name}: {place:?} is not in: {error}");
        assert!(error.contains(remedy), "{name}: {remedy:?} is not in: {error}");
        assert!(!error.contains('\n'), "{name}: {error}");
    }
}

#[test]
fn check_reports_the_same_errors_and_exits_with_1() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("p.wasm"), wat("echo")).expect("written");
    for (name, members, place, remedy) in cases().into_iter().filter(|(name, ..)| *name != "a-crd") {
        let sidecar = json!({"config": descriptor(&members)}).to_string();
        std::fs::write(folder.path().join("p.yaml"), sidecar).expect("written");
        let output = binary().arg("check").arg(folder.path().join("p.wasm")).output().expect("it runs");
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
        assert!(stderr.contains(place) && stderr.contains(remedy), "{name}: {stderr}");
    }
}
