//! `pilothouse rbac`.

use std::fs;

use serde_json::{Value, json};

use crate::binary::{assert_fails, assert_succeeds};
use crate::project;

fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n")
        .map(|text| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}:\n{text}")))
        .collect()
}

#[test]
fn printed_roles_are_minimal_and_follow_the_sidecar() {
    let folder = tempfile::tempdir().expect("a folder");
    project::write(folder.path(), "reader", &project::source("1"));
    assert_succeeds(folder.path(), &["build", ".", "-o", "reader.wasm"]);
    fs::copy(folder.path().join("reader.wasm"), folder.path().join("second.wasm")).expect("copied");
    let output = assert_succeeds(
        folder.path(),
        &["rbac", "reader.wasm", "second.wasm", "--name", "host", "--service-account", "system/runner"],
    );
    let documents = documents(&output.stdout);
    let kinds: Vec<_> = documents.iter().map(|document| document["kind"].as_str().expect("a kind")).collect();
    assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding"]);
    assert_eq!(
        documents[0]["rules"],
        json!([
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        ])
    );
    assert_eq!(
        documents[1]["subjects"],
        json!([{"kind": "ServiceAccount", "name": "runner", "namespace": "system"}])
    );
    assert_eq!(documents[1]["roleRef"]["name"], "host");
    for comment in ["# reader: watch maps", "# second: watch maps", "# reader: events"] {
        assert!(output.stdout.contains(comment), "{comment}\n{}", output.stdout);
    }

    // The sidecar narrows the roles and selects the service account.
    let sidecar = "serviceAccount: bots/a\ngrants: {watches: [{apiGroups: [''], resources: [configmaps], namespaces: [shop]}]}\n";
    fs::write(folder.path().join("reader.yaml"), sidecar).expect("written");
    let documents = self::documents(&assert_succeeds(folder.path(), &["rbac", "reader.wasm"]).stdout);
    let found: Vec<_> = documents
        .iter()
        .filter(|document| document["rules"].is_array())
        .map(|role| {
            (role["metadata"]["namespace"].as_str(), role["metadata"]["name"].as_str(), &role["rules"])
        })
        .collect();
    let maps = |verbs: Value| json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs});
    let events =
        json!({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]});
    let reviews = json!({"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]});
    assert_eq!(
        found,
        [
            (None, Some("pilothouse"), &json!([reviews])),
            (Some("pilothouse"), Some("pilothouse"), &json!([events])),
            (Some("shop"), Some("pilothouse"), &json!([maps(json!(["list", "watch"])), events])),
            (Some("shop"), Some("pilothouse:bots:a"), &json!([maps(json!(["list", "watch"]))])),
        ]
    );
}

#[test]
fn a_host_of_plugin_objects_gets_roles_for_them() {
    let folder = tempfile::tempdir().expect("a folder");
    project::write(folder.path(), "reader", &project::source("1"));
    assert_succeeds(folder.path(), &["build", ".", "-o", "reader.wasm"]);
    fs::write(folder.path().join("config.yaml"), "pluginResource: {enabled: true, namespaces: [shop]}\n")
        .expect("written");
    let arguments = ["rbac", "reader.wasm", "--config", "config.yaml"];
    let documents = documents(&assert_succeeds(folder.path(), &arguments).stdout);
    for namespace in ["pilothouse", "shop"] {
        let rules: Vec<_> = documents
            .iter()
            .filter(|document| document["metadata"]["namespace"] == namespace)
            .filter_map(|document| document["rules"].as_array())
            .flatten()
            .collect();
        let of = |resource: &str| {
            rules.iter().find(|rule| rule["resources"][0] == resource).map(|rule| rule["verbs"].clone())
        };
        assert_eq!(of("plugins"), Some(json!(["list", "watch"])), "{namespace}: {documents:#?}");
        assert_eq!(of("plugins/status"), Some(json!(["patch"])), "{namespace}");
    }
}

#[test]
fn helm_values_have_the_rules_of_the_roles() {
    let folder = tempfile::tempdir().expect("a folder");
    project::write(folder.path(), "reader", &project::source("1"));
    assert_succeeds(folder.path(), &["build", ".", "-o", "reader.wasm"]);
    let printed = assert_succeeds(folder.path(), &["rbac", "reader.wasm", "--format", "helm-values"]).stdout;
    let values: Value =
        serde_saphyr::from_str(&printed).unwrap_or_else(|error| panic!("{error}:\n{printed}"));
    let roles = documents(&assert_succeeds(folder.path(), &["rbac", "reader.wasm"]).stdout);
    let expected =
        json!({"rbac": {"roles": [{"namespace": "", "serviceAccount": "", "rules": roles[0]["rules"]}]}});
    assert_eq!(values, expected);
}

#[test]
fn invalid_usage_exits_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_fails(folder.path(), &["rbac"], 2, &["FILE.wasm"]);
    assert_fails(folder.path(), &["rbac", "absent.wasm"], 2, &["absent.wasm", "no such file"]);
    assert_fails(folder.path(), &["rbac", "a.wasm", "--service-account", "runner"], 2, &["NAMESPACE/NAME"]);
    assert_fails(folder.path(), &["rbac", "a.wasm", "--name", "a: b"], 2, &["--name"]);
    assert_fails(folder.path(), &["rbac", "a.wasm", "--format", "yaml"], 2, &["helm-values"]);
    assert_fails(
        folder.path(),
        &["rbac", "one/a.wasm", "two/a.wasm"],
        2,
        &["one/a.wasm and two/a.wasm", "another --name"],
    );
    assert_fails(folder.path(), &["rbac", "a.wasm", "--config", "absent"], 2, &["--config absent"]);
}
