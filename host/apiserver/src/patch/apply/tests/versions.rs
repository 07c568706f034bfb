//! Managers that wrote in another API version.

use serde_json::json;

use super::*;

fn in_version<'a>(api_version: &'a str, manager: &'a str) -> Writer<'a> {
    Writer { api_version, ..writer(manager) }
}

/// Returns the widget that `old` applied in the version v1alpha1.
fn applied_in_v1alpha1(spec: Value) -> Value {
    let schema = &WIDGET_VERSIONS.schemas[2].1;
    apply(schema, None, &widget(spec), &in_version("example.com/v1alpha1", "old"), false).expect("creates")
}

fn managers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(|entry| entry["manager"].as_str()).collect()
}

fn unconvertible(result: Result<Value, ApplyError>) -> String {
    match result {
        Err(ApplyError::Unconvertible(problem)) => problem,
        other => panic!("the apply fails: {other:?}"),
    }
}

#[test]
fn apply_fails_if_a_managers_version_does_not_declare_a_field_of_the_live_object() {
    let mut live = applied_in_v1alpha1(json!({"size": 1}));
    live["spec"]["color"] = json!("red");
    let problem = unconvertible(apply_as("new", Some(&live), json!({"size": 1})));
    assert_eq!(problem, ".spec.color: field not declared in schema");
}

#[test]
fn apply_fails_if_a_managers_version_does_not_declare_a_field_of_the_configuration() {
    let live = applied_in_v1alpha1(json!({"size": 1}));
    let spec = json!({"size": 1, "color": "red"});
    assert_eq!(
        unconvertible(apply_as("new", Some(&live), spec.clone())),
        "failed to convert new object: .spec.color: field not declared in schema"
    );
    assert_eq!(
        unconvertible(apply_as("old", Some(&live), spec)),
        "failed to prune fields: failed to convert merged object to last applied version: .spec.color: field not declared in schema"
    );
}

#[test]
fn apply_fails_while_a_manager_has_a_version_that_the_custom_kind_no_longer_has() {
    let mut live = apply_as("a", None, json!({"size": 1})).expect("creates");
    live["metadata"]["managedFields"][0]["apiVersion"] = json!("example.com/v0");
    assert_eq!(
        unconvertible(apply_as("b", Some(&live), json!({"size": 1}))),
        "request to convert CR to an invalid group/version: example.com/v0"
    );
    live["metadata"]["managedFields"][0]["apiVersion"] = json!("other.com/v1");
    assert_eq!(
        unconvertible(apply_as("b", Some(&live), json!({"size": 1}))),
        "example.com/v1, Kind=Widget is unstructured and is not suitable for converting to \"other.com/v1\""
    );
}

#[test]
fn an_update_that_no_managers_version_can_express_clears_the_managed_fields() {
    let old = applied_in_v1alpha1(json!({"size": 1}));
    let mut new = old.clone();
    new["spec"]["size"] = json!(2);
    track_update(&widgets(), Some(&old), &mut new, &writer("editor"));
    assert_eq!(managers(&new), ["editor"], "the fields exist in both versions");
    let mut new = old.clone();
    new["spec"]["color"] = json!("red");
    track_update(&widgets(), Some(&old), &mut new, &writer("editor"));
    assert_eq!(new["metadata"].get("managedFields"), None);
}

#[test]
fn changes_are_compared_in_the_version_of_each_manager() {
    let old = applied_in_v1alpha1(json!({"plain": ["a", "b"]}));
    let mut new = old.clone();
    new["spec"]["plain"] = json!(["a", "c"]);
    track_update(&widgets(), Some(&old), &mut new, &writer("editor"));
    assert_eq!(owned(&new, "old"), json!({"f:spec": {"f:plain": {"v:\"a\"": {}}}}), "a set in v1alpha1");
    assert_eq!(owned(&new, "editor"), json!({"f:spec": {"f:plain": {}}}), "an atomic list in v1");
}

#[test]
fn managers_of_versions_that_a_built_in_kind_does_not_have_are_forgotten() {
    let schema = deployments();
    let apps = |manager| Writer {
        api_version: "apps/v1",
        versions: Versions::BuiltIn("Deployment"),
        ..writer(manager)
    };
    let config = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}
    });
    let mut live = apply(&schema, None, &config, &apps("old"), false).expect("creates");
    live["metadata"]["managedFields"][0]["apiVersion"] = json!("extensions/v1beta1");
    let mut scaled = config.clone();
    scaled["spec"]["replicas"] = json!(2);
    let applied = apply(&schema, Some(&live), &scaled, &apps("new"), false).expect("no conflict");
    assert_eq!(managers(&applied), ["new"]);
    let mut updated = live.clone();
    updated["spec"]["paused"] = json!(true);
    track_update(&schema, Some(&live), &mut updated, &apps("editor"));
    assert_eq!(managers(&updated), ["editor"]);
}
