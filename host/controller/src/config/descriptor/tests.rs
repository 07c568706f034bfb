//! Descriptors that are parsed, and those that are refused.

use serde_json::{Value, json};

use super::*;

fn sample() -> Value {
    json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": "sample", "version": "1.0.0",
        "watches": [
            {"name": "foos", "apiVersion": "example.com/v1", "kind": "Foo", "trigger": "self",
             "indexes": [{"name": "secret", "field": "{.spec.secrets[*].name}"}]},
            {"name": "deployments", "apiVersion": "apps/v1", "kind": "Deployment", "trigger": {"owner": {"watch": "foos"}}},
            {"name": "secrets", "apiVersion": "v1", "kind": "Secret", "projection": "metadata",
             "trigger": {"index": {"watch": "foos", "index": "secret"}}}
        ],
        "writes": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "update"]}]
    })
}

/// The sample with one member replaced, and the error that this makes.
fn refused(pointer: &str, value: Value) -> String {
    let mut descriptor = sample();
    let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
    let parent = descriptor.pointer_mut(parent).expect("a parent");
    match parent {
        Value::Object(members) => {
            members.insert(member.to_owned(), value);
        }
        Value::Array(items) => items[member.parse::<usize>().expect("a position")] = value,
        _ => panic!("{pointer} has no parent"),
    }
    Descriptor::parse(&descriptor.to_string()).expect_err(pointer).to_string()
}

#[test]
fn a_valid_descriptor_is_parsed() {
    let descriptor = Descriptor::parse(&sample().to_string()).expect("valid");
    assert_eq!(descriptor.watches[0].trigger, Some(Trigger::Itself));
    assert_eq!(descriptor.watches[1].trigger, Some(Trigger::Owner { watch: "foos".into() }));
    assert_eq!(descriptor.watches[2].projection, ProjectionName::Metadata);
    assert_eq!(descriptor.writes[0].verbs, ["create", "update"]);
}

#[test]
fn the_patterns_of_all_predicates_are_bounded_together() {
    let parse = |watches: usize| {
        let mut descriptor = sample();
        // Half of what one predicate may have.
        let predicate: Vec<_> = (0..32).map(|number| format!("object.a.matches('a{number}')")).collect();
        let watch = |number: usize| {
            json!({"name": format!("w{number}"), "apiVersion": "v1", "kind": "Secret", "trigger": "self",
                "predicate": predicate.join(" || ")})
        };
        descriptor["watches"] = (0..watches).map(watch).collect();
        Descriptor::parse(&descriptor.to_string())
    };
    assert!(parse(8).is_ok());
    let refused = parse(9).expect_err("too large").to_string();
    assert!(refused.contains("watches[8].predicate") && refused.contains("too large together"), "{refused}");
}

#[test]
fn a_descriptor_survives_a_round_trip() {
    let descriptor = Descriptor::parse(&sample().to_string()).expect("valid");
    let text = serde_json::to_string(&descriptor).expect("serialisable");
    assert_eq!(Descriptor::parse(&text).expect("valid"), descriptor);
}

#[test]
fn a_wrong_structure_is_reported_with_the_watch_and_the_field() {
    for (pointer, value, place) in [
        (
            "/watches/1/lableSelector",
            json!("a=b"),
            "watches[1] (\"deployments\").lableSelector: unknown field `lableSelector`, expected one of",
        ),
        (
            "/watches/1/notify",
            json!("yes"),
            "watches[1] (\"deployments\").notify: invalid type: string \"yes\"",
        ),
        ("/watches/0/kind", json!(7), "watches[0] (\"foos\").kind: invalid type: integer `7`"),
        ("/watches/0/name", json!(7), "watches[0].name: invalid type: integer `7`"),
        (
            "/watches/2",
            json!({"name": "secrets", "kind": "Secret"}),
            "watches[2] (\"secrets\"): missing field `apiVersion`",
        ),
        (
            "/watches/0/indexes/0/lable",
            json!("app"),
            "watches[0] (\"foos\").indexes[0] (\"secret\").lable: unknown field `lable`",
        ),
        ("/writes/0/verb", json!("get"), "writes[0].verb: unknown field `verb`"),
    ] {
        let error = refused(pointer, value);
        assert!(error.contains(place), "{place} is not in: {error}");
        assert!(!error.contains("column") && error.contains("docs/plugin.schema.json"), "{error}");
    }
}

#[test]
fn each_error_names_the_field_and_the_remedy() {
    for (pointer, value, place, remedy) in [
        (
            "/apiVersion",
            json!("pilothouse.dev/v9"),
            "apiVersion: \"pilothouse.dev/v9\"",
            "pilothouse.dev/v1alpha1",
        ),
        ("/kind", json!("Pod"), "kind: \"Pod\"", "use \"Plugin\""),
        ("/watches", json!([]), "watches: nothing", "at least one"),
        ("/watches/1/name", json!("foos"), "watches[1].name: there are two", "name of its own"),
        ("/watches/0/kind", json!(""), "watches[0].kind", "as in a manifest"),
        ("/watches/0/apiVersion", json!("a/b/c"), "watches[0].apiVersion", "apps/v1"),
        ("/watches/0/apiVersion", json!("../v1"), "watches[0].apiVersion", "apps/v1"),
        ("/watches/0/apiVersion", json!("apps/v1?watch=true"), "watches[0].apiVersion", "apps/v1"),
        ("/watches/0/kind", json!("Foo/bar"), "watches[0].kind: \"Foo/bar\" is not a kind", "ConfigMap"),
        (
            "/watches/0/resource",
            json!("foos/../../secrets"),
            "watches[0].resource: \"foos/../../secrets\"",
            "leave it out",
        ),
        ("/watches/0/labelSelector", json!("a in b"), "watches[0].labelSelector", "key in (a,b)"),
        ("/watches/0/fieldSelector", json!("a"), "watches[0].fieldSelector", "path=value"),
        ("/watches/0/predicate", json!("object."), "watches[0].predicate", "CEL"),
        (
            "/watches/1/trigger",
            json!({"owner": {"watch": "bars"}}),
            "watches[1].trigger: no watch is called \"bars\"",
            "\"foos\"",
        ),
        ("/watches/1/trigger", json!({"owner": {"watch": "secrets"}}), "is not a target", "\"foos\""),
        (
            "/watches/2/trigger",
            json!({"index": {"watch": "foos", "index": "x"}}),
            "has no index \"x\"",
            "secret",
        ),
        (
            "/watches/2/trigger",
            json!({"field": {"path": "{.spec[", "watch": "foos"}}),
            "trigger.field.path",
            "{.spec.name}",
        ),
        (
            "/watches/0/indexes/0",
            json!({"name": "two", "label": "a", "owner": true}),
            "2 ways",
            "exactly one",
        ),
        ("/watches/0/indexes/0", json!({"name": "none"}), "0 ways", "exactly one"),
        ("/watches/0/colour", json!("red"), "unknown field `colour`", "docs/plugin.schema.json"),
        ("/crds", json!([{"kind": "Pod"}]), "crds[0].kind", "CustomResourceDefinition"),
        (
            "/crds",
            json!([{"kind": "CustomResourceDefinition", "metadata": {"name": "../namespaces/x?force=true"}}]),
            "crds[0].metadata.name: \"../namespaces/x?force=true\" is not a DNS name",
            "PLURAL.GROUP",
        ),
        (
            "/watches/0/namespaces",
            json!(["Not_OK"]),
            "watches[0].namespaces: \"Not_OK\"",
            "leave the list out",
        ),
        ("/limits", json!({"memory": "lots"}), "limits.memory", "16Mi"),
        ("/limits", json!({"reconcileTimeout": "soon"}), "limits.reconcileTimeout", "30s"),
    ] {
        let error = refused(pointer, value);
        assert!(error.contains(place), "{pointer}: {error}");
        assert!(error.contains(remedy), "{pointer}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert!(Descriptor::parse("").expect_err("empty").to_string().contains("line 1"));
}

/// The parser names an unknown member as it was written.
#[test]
fn a_member_with_a_line_break_in_its_name_is_refused_in_one_line() {
    let error = refused("/watches/0/col\rour\n", json!("red"));
    assert!(error.contains("unknown field `col\\rour\\n`"), "{error}");
    assert!(!error.contains(['\n', '\r']), "{error:?}");
}
