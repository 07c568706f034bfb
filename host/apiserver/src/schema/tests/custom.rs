//! Tests of the schemas of custom resources.

use serde_json::{Value, json};

use super::{crd, errors, object};
use crate::schema::{DefaultsTooLarge, Schema};

#[test]
fn wrong_types_and_numbers_out_of_range_have_kubernetes_messages() {
    let schema = crd(&json!({"replicas": {"type": "integer", "minimum": 1, "maximum": 10}}));
    let found = errors(&schema, &object(&json!({"replicas": "string"})), None);
    assert_eq!(
        found,
        [
            r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#
        ]
    );
    assert_eq!(
        errors(&schema, &object(&json!({"replicas": 0})), None),
        ["spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1"]
    );
    assert_eq!(
        errors(&schema, &object(&json!({"replicas": 11})), None),
        ["spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"]
    );
    assert!(errors(&schema, &object(&json!({"replicas": 3})), None).is_empty());
}

/// Each wrong item is reported with all choices of its `enum`, and each branch of `allOf` reports it again.
#[test]
fn the_text_of_all_errors_together_is_bounded() {
    let choices: Vec<_> = (0..2_000).map(|number| format!("{number:0400}")).collect();
    let choice = json!({"type": "string", "enum": choices});
    let schema = crd(&json!({
        "list": {"type": "array", "items": choice},
        "all": {"type": "string", "allOf": vec![json!({"enum": choices}); 50]},
    }));
    for (spec, at) in
        [(json!({"list": vec!["wrong"; 100]}), "spec.list[0]"), (json!({"all": "wrong"}), "spec.all")]
    {
        let found = errors(&schema, &object(&spec), None);
        let size: usize = found.iter().map(String::len).sum();
        assert!(size < 2 << 20, "{at}: {} errors of {size} bytes", found.len());
        assert!(
            found[0].starts_with(&format!("{at}: Unsupported value: \"wrong\": supported values: ")),
            "{at}"
        );
        assert!(found.last().is_some_and(|last| last.ends_with("correct these to see the others")), "{at}");
    }
}

#[test]
fn value_validations_of_strings_lists_and_maps_are_enforced() {
    let schema = crd(&json!({
        "name": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"},
        "tier": {"type": "string", "enum": ["gold", "silver"]},
        "when": {"type": "string", "format": "date-time"},
        "list": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "port": {"x-kubernetes-int-or-string": true},
        "maybe": {"type": "string", "nullable": true},
        "count": {"type": "integer", "format": "int32"},
    }));
    let errors_of = |spec: Value| errors(&schema, &object(&spec), None);
    assert_eq!(
        errors_of(json!({"name": "a"})),
        [r#"spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#]
    );
    assert_eq!(errors_of(json!({"name": "abcd"})), ["spec.name: Too long: may not be more than 3 bytes"]);
    assert_eq!(
        errors_of(json!({"name": "A1"})),
        [r#"spec.name: Invalid value: "A1": spec.name in body should match '^[a-z]+$'"#]
    );
    assert_eq!(
        errors_of(json!({"tier": "tin"})),
        [r#"spec.tier: Unsupported value: "tin": supported values: "gold", "silver""#]
    );
    assert_eq!(
        errors_of(json!({"when": "soon"})),
        [r#"spec.when: Invalid value: "soon": spec.when in body must be of type date-time: "soon""#]
    );
    assert_eq!(errors_of(json!({"list": ["a", "b"]})), ["spec.list: Too many: 2: must have at most 1 item"]);
    assert_eq!(
        errors_of(json!({"map": {"a": true}})),
        [r#"spec.map.a: Invalid value: "boolean": spec.map.a in body must be of type integer: "boolean""#]
    );
    assert!(errors_of(json!({"port": 80})).is_empty() && errors_of(json!({"port": "http"})).is_empty());
    assert_eq!(errors_of(json!({"port": true})).len(), 1);
    assert!(errors_of(json!({"maybe": null})).is_empty());
    assert_eq!(errors_of(json!({"name": null})).len(), 1, "null is not allowed unless nullable");
    assert_eq!(errors_of(json!({"count": 3_000_000_000_u64})).len(), 1);
}

#[test]
fn required_fields_and_one_of_are_checked() {
    let schema = Schema::from_crd(&json!({
        "type": "object", "required": ["spec"],
        "properties": {"spec": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]
        }}
    }))
    .expect("structural");
    let bare = json!({"metadata": {"name": "a"}});
    assert_eq!(errors(&schema, &bare, None), ["spec: Required value"]);
    let neither = errors(&schema, &object(&json!({})), None);
    assert_eq!(
        neither,
        [
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.a: Required value"
        ]
    );
    assert!(errors(&schema, &object(&json!({"b": "x"})), None).is_empty());
    assert_eq!(errors(&schema, &object(&json!({"a": "x", "b": "x"})), None).len(), 1);
}

#[test]
fn errors_of_the_closest_branch_are_reported_beside_any_of_and_all_of() {
    let schema = crd(&json!({
        "either": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"host": {"type": "string"}, "port": {"type": "integer"}},
            "anyOf": [
                {"required": ["other"]},
                {"properties": {"host": {"pattern": "^h"}, "port": {"minimum": 1}}}
            ]
        },
        "both": {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": -1}, {"maximum": 9}]}
    }));
    assert_eq!(
        errors(&schema, &object(&json!({"either": {"host": "a", "port": 1}})), None),
        [
            r#"<nil>: Invalid value: "": "spec.either" must validate at least one schema (anyOf)"#,
            r#"spec.either.host: Invalid value: "a": spec.either.host in body should match '^h'"#
        ]
    );
    let found = errors(&schema, &object(&json!({"both": 0})), None);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[2], r#"<nil>: Invalid value: "": "spec.both" must validate all the schemas (allOf)"#);
}

#[test]
fn lists_of_type_set_and_map_must_have_unique_items() {
    let schema = crd(&json!({
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
        }
    }));
    assert_eq!(
        errors(&schema, &object(&json!({"set": ["a", "b", "a", "a"]})), None),
        [r#"spec.set[2]: Duplicate value: "a""#]
    );
    assert_eq!(
        errors(&schema, &object(&json!({"map": [{"name": "a"}, {"name": "a"}]})), None),
        [r#"spec.map[1]: Duplicate value: {"name":"a"}"#]
    );
}

#[test]
fn unchanged_value_may_stay_invalid() {
    let schema = crd(&json!({"n": {"type": "integer", "minimum": 5}, "m": {"type": "integer"}}));
    let old = object(&json!({"n": 1, "m": 1}));
    assert!(errors(&schema, &object(&json!({"n": 1, "m": 2})), Some(&old)).is_empty());
    assert_eq!(errors(&schema, &object(&json!({"n": 2, "m": 1})), Some(&old)).len(), 1);
}

#[test]
fn schemas_that_are_not_structural_are_rejected() {
    let violations = |schema: Value| -> Vec<String> {
        let causes = Schema::from_crd_at(&schema, "schema").expect_err("not structural");
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    };
    assert_eq!(violations(json!({})), ["schema.type: Required value: must not be empty at the root"]);
    assert_eq!(
        violations(json!({"type": "object", "properties": {"a": {}}})),
        ["schema.properties[a].type: Required value: must not be empty for specified object fields"]
    );
    assert_eq!(
        violations(json!({"type": "object", "properties": {"a": {"type": "array"}}})),
        ["schema.properties[a].items: Required value: must be specified"]
    );
    assert_eq!(
        violations(json!({"type": "object", "oneOf": [{"properties": {"b": {"minimum": 1}}}]})),
        ["schema.properties[b]: Required value: because it is defined in schema.oneOf[0].properties[b]"]
    );
    assert_eq!(
        violations(
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}})
        ),
        [
            "schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but \
          metadata is implicitly specified"
        ]
    );
    let rule = violations(json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.a +"}]}));
    assert!(
        rule[0].starts_with(r#"schema.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a +","#),
        "{rule:?}"
    );
    let keys = violations(json!({"type": "object", "properties": {"l": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}}}
    }}}));
    assert_eq!(
        keys,
        ["schema.properties[l].items.properties[name].default: Required value: this property is in \
          x-kubernetes-list-map-keys, so it must have a default or be a required property"]
    );
}

#[test]
fn pruning_removes_unknown_fields_and_returns_their_paths() {
    let schema = crd(&json!({
        "known": {"type": "string"},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "strict": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
    }));
    let mut value = object(&json!({
        "known": "a", "foo": 1,
        "raw": {"any": {"thing": 1}, "strict": {"a": "x", "b": "y"}},
        "list": [{"a": "x", "b": "y"}],
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"q": 1}, "extra": 1}
    }));
    value["metadata"]["bogus"] = json!(1);
    assert_eq!(
        schema.prune_strictly(&mut value.clone()),
        [
            r#"unknown field "metadata.bogus""#,
            r#"unknown field "spec.foo""#,
            r#"unknown field "spec.list[0].b""#,
            r#"unknown field "spec.raw.strict.b""#,
            r#"unknown field "spec.template.extra""#,
        ]
    );
    assert_eq!(schema.prune(&mut value).len(), 5);
    assert_eq!(
        value,
        object(&json!({
            "known": "a", "raw": {"any": {"thing": 1}, "strict": {"a": "x"}}, "list": [{"a": "x"}],
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"q": 1}}
        }))
    );
    assert!(schema.prune(&mut value).is_empty());
}

#[test]
fn custom_resources_are_defaulted_recursively() {
    let schema = crd(&json!({
        "replicas": {"type": "integer", "default": 2},
        "nested": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "x"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        "nullable": {"type": "string", "nullable": true, "default": "d"},
        "plain": {"type": "string"}
    }));
    let mut value = object(&json!({"replicas": null, "list": [{}], "nullable": null, "plain": null}));
    schema.apply_defaults(&mut value).expect("the defaults fit");
    let expected =
        object(&json!({"replicas": 2, "nested": {"a": "x"}, "list": [{"p": "TCP"}], "nullable": null}));
    assert_eq!(value, expected);
    schema.apply_defaults(&mut value).expect("the defaults fit");
    assert_eq!(value, expected, "defaulting twice changes nothing");
}

#[test]
fn nulls_are_removed_unless_the_schema_allows_them_or_has_a_default() {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let map = |value: Value| json!({"type": "object", "additionalProperties": value});
    let schema = crd(&json!({
        "open": open, "anything": {"x-kubernetes-preserve-unknown-fields": true},
        "either": {"x-kubernetes-int-or-string": true},
        "map": map(json!({"type": "string"})),
        "nullable": map(json!({"type": "string", "nullable": true})),
        "defaulted": map(json!({"type": "string", "default": "d"})),
    }));
    let nulls = json!({
        "open": null, "anything": null, "either": null, "map": {"a": null, "b": "c"},
        "nullable": {"a": null}, "defaulted": {"a": null},
    });
    let mut value = object(&nulls);
    schema.apply_defaults(&mut value).expect("the defaults fit");
    let expected = json!({"map": {"b": "c"}, "nullable": {"a": null}, "defaulted": {"a": "d"}});
    assert_eq!(value, object(&expected));
    let mut applied = object(&nulls);
    schema.apply_defaults_keeping_null(&mut applied).expect("the defaults fit");
    let expected = json!({
        "open": null, "either": null, "map": {"a": null, "b": "c"}, "nullable": {"a": null},
        "defaulted": {"a": "d"},
    });
    assert_eq!(applied, object(&expected), "validation refuses the others");
}

#[test]
fn defaults_that_make_an_object_too_large_are_refused() {
    let item =
        json!({"type": "object", "properties": {"p": {"type": "string", "default": "x".repeat(1_000)}}});
    let schema = crd(&json!({"list": {"type": "array", "items": item}}));
    let defaulted = |items: usize| {
        let mut value = object(&json!({"list": vec![json!({}); items]}));
        let result = schema.apply_defaults(&mut value);
        (result, value.to_string().len())
    };
    let (result, len) = defaulted(1_500);
    assert_eq!(result, Ok(()));
    assert!(len > 1_500_000);
    let (result, len) = defaulted(100_000);
    assert_eq!(result, Err(DefaultsTooLarge));
    assert!(len < 1_572_864 + 400_000, "the object was defaulted up to {len} bytes");
}

#[test]
fn unknown_fields_of_the_metadata_come_first_and_those_of_embedded_metadata_last() {
    let template = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    });
    let strict = json!({"type": "object", "properties": {"known": {"type": "string"}}});
    let schema = crd(&json!({
        "template": template, "map": {"type": "object", "additionalProperties": strict},
    }));
    let mut value = object(&json!({
        "z": 1, "b": 1, "map": {"key": {"other": 1}}, "template": {"metadata": {"a": 1, "name": "x"}},
    }));
    value["aa"] = json!(1);
    value["metadata"]["zz"] = json!(1);
    let expected =
        ["metadata.zz", "aa", "spec.b", "spec.map.key.other", "spec.z", "spec.template.metadata.a"];
    assert_eq!(schema.prune(&mut value), expected);
}

#[test]
fn embedded_resources_need_a_valid_kind_version_and_name() {
    let schema = crd(&json!({"embedded": {
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    }}));
    let fields_of = |embedded: Value| {
        let found = errors(&schema, &object(&json!({"embedded": embedded})), None);
        found
            .into_iter()
            .map(|error| error.split(": ").next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(fields_of(json!({"apiVersion": "v1", "kind": "Foo"})).is_empty());
    assert!(
        fields_of(json!({"apiVersion": "v1", "kind": "Foo", "metadata": {"generateName": "a-"}})).is_empty()
    );
    assert_eq!(
        fields_of(json!({"apiVersion": "a/b/c", "kind": "%", "metadata": {"name": "..", "namespace": "A"}})),
        [
            "spec.embedded.apiVersion",
            "spec.embedded.kind",
            "spec.embedded.metadata.name",
            "spec.embedded.metadata.namespace",
        ]
    );
}

#[test]
fn a_default_of_an_embedded_resource_loses_unknown_metadata() {
    let embedded = json!({
        "apiVersion": "v1", "kind": "Foo", "metadata": {"name": "bar", "unknown": "x"},
    });
    let schema = crd(&json!({
        "whole": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "default": embedded,
        },
        "parts": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"metadata": {"type": "object", "default": embedded["metadata"]}},
        },
        "fields": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"metadata": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "default": "bar"}, "unknown": {"type": "string", "default": "x"},
                },
            }},
        },
    }));
    let embedded = json!({"apiVersion": "v1", "kind": "Foo", "metadata": {}});
    let mut given = object(&json!({"parts": {"apiVersion": "v1", "kind": "Foo"}, "fields": embedded}));
    schema.apply_defaults(&mut given).expect("the defaults fit");
    for name in ["whole", "parts", "fields"] {
        assert_eq!(given["spec"][name]["metadata"], json!({"name": "bar"}), "{name}");
    }
}

#[test]
fn lists_are_not_checked_for_equal_items_if_the_stored_object_has_some() {
    let schema = crd(&json!({
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "other": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }));
    let valid = object(&json!({"set": ["a"]}));
    let invalid = object(&json!({"set": ["a", "a"]}));
    let worse = object(&json!({"set": ["a", "a", "b"], "other": ["c", "c"]}));
    assert_eq!(errors(&schema, &invalid, Some(&valid)), [r#"spec.set[1]: Duplicate value: "a""#]);
    assert!(errors(&schema, &worse, Some(&invalid)).is_empty());
}

#[test]
fn another_order_of_a_list_of_type_map_is_no_change() {
    let schema = crd(&json!({"list": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "maxItems": 1,
        "items": {
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
        },
    }}));
    let with = |list: Value| object(&json!({"list": list}));
    let old = with(json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]));
    let reordered = with(json!([{"name": "b", "port": 2}, {"name": "a", "port": 1}]));
    assert!(errors(&schema, &reordered, Some(&old)).is_empty());
    let changed = with(json!([{"name": "b", "port": 3}, {"name": "a", "port": 1}]));
    assert_eq!(errors(&schema, &changed, Some(&old)).len(), 1);
}
