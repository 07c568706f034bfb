//! Tests of server-side apply.

mod duplicates;
mod properties;
mod scale;
mod versions;

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::*;

fn deployments() -> std::sync::Arc<Schema> {
    Schema::builtin("apps", "v1", "Deployment").expect("built in")
}

fn widgets() -> Schema {
    Schema::from_crd(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"}, "color": {"type": "string"},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "weight": {"type": "integer"}, "note": {"type": "string"}}}
            }
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    }}))
    .expect("the schema is structural")
}

/// The versions of widgets. `v1alpha1` lacks some fields, and has a granular list that is atomic in the others.
static WIDGET_VERSIONS: LazyLock<CustomVersions> = LazyLock::new(|| {
    let old = Schema::from_crd(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "plain": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
        }}
    }}));
    let (widgets, old) = (Arc::new(widgets()), Arc::new(old.expect("the schema is structural")));
    CustomVersions {
        kind: "Widget".into(),
        schemas: vec![
            ("example.com/v1".into(), Arc::clone(&widgets)),
            ("example.com/v2".into(), widgets),
            ("example.com/v1alpha1".into(), old),
        ],
        by_webhook: false,
    }
});

fn writer(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        api_version: "example.com/v1",
        subresource: "",
        has_status: true,
        kept_by_status: None,
        versions: Versions::Custom(&WIDGET_VERSIONS),
        time: "2026-01-01T00:00:00Z",
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the json! macro of a call builds a value to give away")]
fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

fn apply_as(manager: &str, live: Option<&Value>, spec: Value) -> Result<Value, ApplyError> {
    apply(&widgets(), live, &widget(spec), &writer(manager), false)
}

fn owned(object: &Value, manager: &str) -> Value {
    let list = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter()
        .find(|entry| entry["manager"] == manager)
        .map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

#[test]
fn apply_that_creates_an_object_owns_the_fields_it_sets() {
    let object =
        apply_as("a", None, json!({"size": 1, "parts": [{"name": "x", "weight": 2}], "tags": ["t"]}));
    let object = object.expect("no conflict");
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "a", "operation": "Apply", "apiVersion": "example.com/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {
                "f:size": {},
                "f:parts": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:weight": {}}},
                "f:tags": {"v:\"t\"": {}}
            }}
        }])
    );
}

#[test]
fn managers_of_different_fields_share_an_object() {
    let first =
        apply_as("a", None, json!({"size": 1, "parts": [{"name": "x", "weight": 1}]})).expect("creates");
    let parts = json!([{"name": "x", "note": "n"}, {"name": "y"}]);
    let second = apply_as("b", Some(&first), json!({"color": "red", "parts": parts})).expect("no conflict");
    assert_eq!(
        second["spec"],
        json!({"size": 1, "color": "red", "parts": [{"name": "x", "weight": 1, "note": "n"}, {"name": "y"}]})
    );
}

#[test]
fn changing_another_managers_field_conflicts_unless_equal_or_forced() {
    let live = apply_as("a", None, json!({"size": 1, "color": "red"})).expect("creates");
    let equal = apply_as("b", Some(&live), json!({"size": 1})).expect("equal values are shared");
    assert_eq!(owned(&equal, "a"), json!({"f:spec": {"f:color": {}, "f:size": {}}}));
    assert_eq!(owned(&equal, "b"), json!({"f:spec": {"f:size": {}}}));

    let Err(ApplyError::Conflict { message, causes }) = apply_as("b", Some(&live), json!({"size": 2})) else {
        panic!("size belongs to a")
    };
    assert_eq!(message, r#"Apply failed with 1 conflict: conflict with "a": .spec.size"#);
    assert_eq!(causes[0].reason, "FieldManagerConflict");
    assert_eq!(causes[0].field, ".spec.size");
    assert_eq!(causes[0].message, r#"conflict with "a""#);

    let forced =
        apply(&widgets(), Some(&live), &widget(json!({"size": 2})), &writer("b"), true).expect("forced");
    assert_eq!(forced["spec"], json!({"size": 2, "color": "red"}));
    assert_eq!(owned(&forced, "a"), json!({"f:spec": {"f:color": {}}}));
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let mut live = apply_as("a", None, json!({"size": 1})).expect("creates");
    let old = live.clone();
    live["spec"]["color"] = json!("red");
    track_update(&widgets(), Some(&old), &mut live, &writer("editor"));
    let Err(ApplyError::Conflict { message, causes }) =
        apply_as("b", Some(&live), json!({"size": 2, "color": "blue"}))
    else {
        panic!("both fields are owned")
    };
    assert_eq!(
        message,
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.size\n\
         conflicts with \"editor\" using example.com/v1:\n- .spec.color"
    );
    assert_eq!(causes.len(), 2);
}

#[test]
fn fields_no_longer_applied_are_removed_unless_another_manager_owns_them() {
    let parts = json!([{"name": "x", "weight": 1}, {"name": "y", "weight": 1}]);
    let live = apply_as(
        "a",
        None,
        json!({"size": 1, "color": "red", "tags": ["p", "q"], "parts": parts, "map": {"k": "v"}}),
    );
    let live =
        apply_as("b", Some(&live.expect("creates")), json!({"color": "red", "parts": [{"name": "y"}]}));
    let after = apply_as("a", Some(&live.expect("shares")), json!({"tags": ["q"]})).expect("no conflict");
    assert_eq!(
        after["spec"],
        json!({"color": "red", "tags": ["q"], "parts": [{"name": "y"}]}),
        "b still owns color and the part y, but not the weight"
    );
}

#[test]
fn metadata_stays_when_its_labels_are_no_longer_applied() {
    let mut labelled = widget(json!({"size": 1}));
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let mut live = apply(&widgets(), None, &labelled, &writer("a"), false).expect("creates");
    live["metadata"]["uid"] = json!("u");
    let after = apply_as("a", Some(&live), json!({"size": 1})).expect("no conflict");
    assert_eq!(after["metadata"]["name"], "w");
    assert_eq!(after["metadata"]["uid"], "u");
    assert!(after["metadata"].get("labels").is_none());
}

#[test]
fn unowned_fields_are_removed_with_their_list_item() {
    let mut live = apply_as("a", None, json!({"size": 1, "parts": [{"name": "x"}]})).expect("creates");
    live["spec"]["parts"][0]["weight"] = json!(7);
    live["spec"]["color"] = json!("defaulted");
    let after = apply_as("a", Some(&live), json!({"size": 1})).expect("no conflict");
    assert_eq!(after["spec"], json!({"size": 1, "color": "defaulted"}));
}

#[test]
fn atomic_lists_and_maps_are_owned_as_a_whole() {
    let live = apply_as("a", None, json!({"plain": ["x"], "whole": {"k": "v"}})).expect("creates");
    assert_eq!(owned(&live, "a"), json!({"f:spec": {"f:plain": {}, "f:whole": {}}}));
    assert!(apply_as("b", Some(&live), json!({"plain": ["x", "y"]})).is_err());
    assert!(apply_as("b", Some(&live), json!({"whole": {"other": "v"}})).is_err());
    let after = apply_as("a", Some(&live), json!({"plain": ["z"], "whole": {"n": "m"}})).expect("own fields");
    assert_eq!(after["spec"], json!({"plain": ["z"], "whole": {"n": "m"}}));
}

#[test]
fn update_owns_changed_fields_and_releases_removed_ones() {
    let mut live = widget(json!({"size": 1, "color": "red"}));
    track_update(&widgets(), None, &mut live, &writer("creator"));
    assert_eq!(owned(&live, "creator"), json!({"f:spec": {".": {}, "f:color": {}, "f:size": {}}}));
    let mut new = live.clone();
    new["spec"] = json!({"size": 2});
    track_update(&widgets(), Some(&live), &mut new, &writer("editor"));
    assert_eq!(owned(&new, "creator"), json!({"f:spec": {}}));
    assert_eq!(owned(&new, "editor"), json!({"f:spec": {"f:size": {}}}));
    assert_eq!(new["metadata"]["managedFields"][0]["operation"], "Update");
}

#[test]
fn update_without_changes_keeps_the_entries_times() {
    let mut live = widget(json!({"size": 1}));
    track_update(&widgets(), None, &mut live, &writer("creator"));
    let mut new = live.clone();
    track_update(
        &widgets(),
        Some(&live),
        &mut new,
        &Writer { time: "2030-01-01T00:00:00Z", ..writer("creator") },
    );
    assert_eq!(new, live);
}

#[test]
fn update_can_clear_managed_fields() {
    let mut live = widget(json!({"size": 1}));
    track_update(&widgets(), None, &mut live, &writer("creator"));
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([{}]);
    track_update(&widgets(), Some(&live), &mut new, &writer("editor"));
    assert!(new["metadata"].get("managedFields").is_none());
}

#[test]
fn subresources_have_separate_managers() {
    let mut live = widget(json!({"size": 1}));
    live["status"] = json!({"ready": false});
    track_update(&widgets(), None, &mut live, &writer("c"));
    assert_eq!(
        owned(&live, "c"),
        json!({"f:spec": {".": {}, "f:size": {}}}),
        "a write to the main resource does not own status"
    );
    let mut new = live.clone();
    new["status"] = json!({"ready": true});
    track_update(&widgets(), Some(&live), &mut new, &Writer { subresource: "status", ..writer("c") });
    let entries = new["metadata"]["managedFields"].as_array().expect("two entries");
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["subresource"], "status");
    assert_eq!(entries[1]["fieldsV1"], json!({"f:status": {"f:ready": {}}}));

    let config = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
                        "spec": {"size": 9}, "status": {"ready": true}});
    let status = Writer { subresource: "status", ..writer("d") };
    let applied = apply(&widgets(), Some(&new), &config, &status, false).expect("spec is not touched");
    assert_eq!(applied["spec"]["size"], 1);
    assert_eq!(owned(&applied, "d"), json!({"f:status": {"f:ready": {}}}));
}

#[test]
fn an_empty_list_clears_managed_fields_until_the_next_apply() {
    let live = apply_as("a", None, json!({"size": 1})).expect("creates");
    for cleared in [json!([]), json!([{}])] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = cleared.clone();
        let mut status = new.clone();
        track_update(&widgets(), Some(&live), &mut status, &Writer { subresource: "status", ..writer("b") });
        assert_eq!(status, live, "a subresource does not replace them");
        track_update(&widgets(), Some(&live), &mut new, &writer("b"));
        assert_eq!(new["metadata"].get("managedFields"), None);
        let mut later = new.clone();
        later["spec"]["size"] = json!(2);
        track_update(&widgets(), Some(&new), &mut later, &writer("b"));
        assert_eq!(later["metadata"].get("managedFields"), None, "an update does not begin to track");
        let mut created = widget(json!({"size": 1}));
        created["metadata"]["managedFields"] = cleared;
        track_update(&widgets(), None, &mut created, &writer("b"));
        assert_eq!(owned(&created, "b"), json!({"f:spec": {".": {}, "f:size": {}}}));
    }
}

#[test]
fn object_without_managed_fields_belongs_to_before_first_apply() {
    let live = widget(json!({"size": 1}));
    let error = apply_as("a", Some(&live), json!({"size": 2})).expect_err("before-first-apply owns the size");
    assert!(error.to_string().contains("before-first-apply"), "{error}");
}

#[test]
fn kubectl_migrates_from_client_side_to_server_side_apply() {
    let schema = deployments();
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "paused": false}
    });
    let mut live = manifest.clone();
    live["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": manifest.to_string()});
    let apps = |manager| Writer { api_version: "apps/v1", ..writer(manager) };
    track_update(&schema, None, &mut live, &apps("kubectl-client-side-apply"));
    let mut config = manifest;
    config["spec"]["replicas"] = json!(3);
    let migrated = apply(&schema, Some(&live), &config, &apps("kubectl"), false).expect("its own fields");
    assert_eq!(migrated["spec"]["replicas"], 3);
    assert!(apply(&schema, Some(&live), &config, &apps("somebody"), false).is_err());
}

#[test]
fn kubectl_takes_over_only_what_it_applied_and_nobody_changed() {
    let schema = widgets();
    let manifest = |plain: Value| widget(json!({"size": 1, "plain": plain}));
    let mut live = manifest(json!(["x"]));
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    live["metadata"]["annotations"] = json!({annotation: manifest(json!(["x"])).to_string()});
    track_update(&schema, None, &mut live, &writer("kubectl-client-side-apply"));
    let config = manifest(json!(["y"]));
    apply(&schema, Some(&live), &config, &writer("kubectl"), false).expect("its own list");
    // A default within an atomic list makes it another one.
    live["spec"]["plain"] = json!(["x", "default"]);
    let Err(ApplyError::Conflict { message, .. }) =
        apply(&schema, Some(&live), &widget(json!({"size": 2, "plain": ["y"]})), &writer("kubectl"), false)
    else {
        panic!("the list was changed")
    };
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using example.com/v1: .spec.plain"
    );
    let other_version = Writer { api_version: "example.com/v2", ..writer("kubectl") };
    assert!(apply(&schema, Some(&live), &manifest(json!(["x"])), &other_version, false).is_err());
}

#[test]
fn annotation_of_client_side_apply_is_updated_only_for_kubectl_and_only_if_it_fits() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut config = widget(json!({"size": 2}));
    config["metadata"]["annotations"] = json!({annotation: "old", "other": "o"});
    let mut object = config.clone();
    update_last_applied(&mut object, &config, &writer("somebody"));
    assert_eq!(object, config);
    update_last_applied(&mut object, &config, &writer("kubectl"));
    let expected = "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"annotations\":{\"other\":\"o\"},\
                    \"name\":\"w\"},\"spec\":{\"size\":2}}\n";
    assert_eq!(object["metadata"]["annotations"], json!({annotation: expected, "other": "o"}));
    config["spec"]["color"] = json!("x".repeat(256 * 1024));
    update_last_applied(&mut object, &config, &writer("kubectl"));
    assert_eq!(object["metadata"]["annotations"], json!({"other": "o"}));
    update_last_applied(&mut object, &config, &writer("kubectl"));
    assert_eq!(object["metadata"]["annotations"], json!({"other": "o"}), "there is nothing to update");
}

#[test]
fn ports_are_identified_by_number_and_defaulted_protocol() {
    let schema = Schema::builtin("", "v1", "Service").expect("built in");
    let service = |ports: Value| json!({"metadata": {"name": "s"}, "spec": {"ports": ports}});
    let writer = Writer { api_version: "v1", ..writer("a") };
    let live = apply(&schema, None, &service(json!([{"port": 80}])), &writer, false).expect("creates");
    assert_eq!(
        owned(&live, "a"),
        json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}})
    );
    let mut defaulted = live.clone();
    defaulted["spec"]["ports"][0]["protocol"] = json!("TCP");
    let config =
        service(json!([{"port": 80, "name": "http"}, {"port": 80, "protocol": "UDP", "name": "dns"}]));
    let after = apply(&schema, Some(&defaulted), &config, &writer, false).expect("no conflict");
    assert_eq!(
        after["spec"]["ports"],
        json!([{"port": 80, "protocol": "TCP", "name": "http"}, {"port": 80, "protocol": "UDP", "name": "dns"}])
    );
}

#[test]
fn quantities_are_compared_as_they_are_written() {
    let schema = Schema::builtin("", "v1", "Pod").expect("built in");
    let pod = |cpu: &str| {
        let limits = json!({"limits": {"cpu": cpu}});
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": limits}]}})
    };
    let writer = |manager| Writer { api_version: "v1", ..writer(manager) };
    let live = apply(&schema, None, &pod("1"), &writer("a"), false).expect("creates");
    apply(&schema, Some(&live), &pod("1"), &writer("b"), false).expect("the same text");
    // As in Kubernetes, another text of the same value is another value.
    assert!(apply(&schema, Some(&live), &pod("1000m"), &writer("b"), false).is_err());
}

#[test]
fn items_without_keys_duplicates_and_managed_fields_are_rejected() {
    let refused = |spec: Value| apply_as("a", None, spec).expect_err("refused").to_string();
    assert_eq!(
        refused(json!({"parts": [{"weight": 1}]})),
        ".spec.parts: element 0: associative list with keys has an element that omits key field \"name\" \
         (and doesn't have default value)"
    );
    assert_eq!(
        refused(json!({"parts": [{"name": "x"}, {"name": "x"}]})),
        ".spec.parts: duplicate entries for key [name=\"x\"]"
    );
    assert_eq!(refused(json!({"tags": ["t", "t"]})), ".spec.tags: duplicate entries for key [=\"t\"]");
    let mut config = widget(json!({}));
    config["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let error = apply(&widgets(), None, &config, &writer("a"), false).expect_err("managed fields");
    assert_eq!(error.to_string(), "metadata.managedFields must be nil");
}

#[test]
fn update_managers_are_capped() {
    let mut live = widget(json!({"map": {}}));
    track_update(&widgets(), None, &mut live, &Writer { time: "2025-12-31T00:00:00Z", ..writer("creator") });
    for number in 0..15 {
        let (name, time) = (format!("m{number}"), format!("2026-01-01T00:00:{number:02}Z"));
        let mut new = live.clone();
        new["spec"]["map"][&name] = json!("v");
        track_update(&widgets(), Some(&live), &mut new, &Writer { time: &time, ..writer(&name) });
        live = new;
    }
    let entries = live["metadata"]["managedFields"].as_array().expect("entries");
    assert_eq!(entries.len(), 10);
    assert!(owned(&live, "ancient-changes")["f:spec"]["f:map"].get("f:m0").is_some());
    assert_ne!(owned(&live, "m14"), Value::Null);
}

#[test]
fn undeclared_fields_are_rejected_one_per_object() {
    let spec = json!({"parts": [{"name": "x", "wieght": 1}], "plain": ["a"], "map": {"any": "b"}, "first": 1, "second": 2});
    assert_eq!(
        apply_as("a", None, spec).expect_err("refused"),
        ApplyError::Untyped(
            "errors:\n  .spec.first: field not declared in schema\n  .spec.parts[name=\"x\"].wieght: field not declared in schema"
                .to_owned()
        )
    );
}
