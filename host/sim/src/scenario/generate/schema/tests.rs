//! Objects and changes of several schemas, and of arbitrary ones.

use proptest::prelude::*;

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
            "spec": {
                "type": "object", "required": ["replicas", "deploymentName", "mode", "host", "source", "ports", "immutable"],
                "properties": {
                    "replicas": {"type": "integer", "minimum": 1, "maximum": 10},
                    "even": {"type": "integer", "minimum": 3, "multipleOf": 2},
                    "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 2},
                    "negative": {"type": "integer", "maximum": -5},
                    "deploymentName": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
                    "mode": {"type": "string", "enum": ["Fast", "Slow"], "default": "Fast"},
                    "host": {"type": "string", "format": "hostname"},
                    "short": {"type": "string", "minLength": 2, "maxLength": 4},
                    "code": {"type": "string", "pattern": "^[A-Z]{2}\\d{3}$"},
                    "immutable": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                    "source": {
                        "type": "object", "oneOf": [{"required": ["git"]}, {"required": ["image"]}],
                        "properties": {"git": {"type": "string"}, "image": {"type": "string"}},
                    },
                    "ports": {
                        "type": "array", "minItems": 2, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                        "items": {"type": "object", "required": ["port"], "properties": {
                            "port": {"type": "integer", "minimum": 1, "maximum": 65535}, "name": {"type": "string"},
                        }},
                    },
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "surge": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
                "x-kubernetes-validations": [{"rule": "self.mode != 'Slow' || self.replicas < 3"}],
            },
        },
    })
}

#[test]
fn generated_objects_and_their_changes_satisfy_the_schema() {
    let schema = schema();
    let mut changed_fields = std::collections::BTreeSet::new();
    for seed in 0..30 {
        let object = generate(&schema, "sample-a", &[], seed).expect("an object");
        assert!(!object.contains_key("status") && !object.contains_key("metadata"));
        assert_eq!(object["spec"]["deploymentName"], "sample-a", "names are those of the object");
        let value = Value::Object(object.clone());
        assert_eq!(validate(&schema, &value, None), Ok(()));
        let patch = change(&schema, &object, "sample-a", &[], seed, 0).expect("a change");
        let after = merged(&value, &patch);
        assert_ne!(after, value);
        assert_eq!(validate(&schema, &after, Some(&value)), Ok(()));
        assert_eq!(after["spec"]["immutable"], value["spec"]["immutable"]);
        changed_fields.extend(patch["spec"].as_object().expect("spec").keys().cloned());
    }
    assert!(changed_fields.iter().all(|field| field != "deploymentName"), "{changed_fields:?}");
}

#[test]
fn fields_named_as_a_kind_have_a_name_and_are_changed_last() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["deployment", "secrets", "note"],
        "properties": {
            "deployment": {"type": "string"}, "note": {"type": "string"},
            "secrets": {"type": "array", "items": {"type": "string"}},
        },
    }}});
    let kinds = ["deployment".to_owned(), "secret".to_owned()];
    for seed in 0..10 {
        let object = generate(&schema, "sample-a", &kinds, seed).expect("an object");
        assert_eq!(
            (&object["spec"]["deployment"], &object["spec"]["secrets"]),
            (&json!("sample-a"), &json!(["sample-a"]))
        );
        let patch = change(&schema, &object, "sample-a", &kinds, seed, 0).expect("a change");
        assert!(patch["spec"]["note"].is_string(), "{patch}");
    }
}

#[test]
fn changes_raise_numbers_and_lower_them_again() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1},
    }}}});
    let mut object = json!({"spec": {"size": 1}}).as_object().cloned().expect("an object");
    for (round, size) in [(0, 3), (1, 2)] {
        let patch = change(&schema, &object, "a", &[], 1, round).expect("a change");
        assert_eq!(patch, json!({"spec": {"size": size}}));
        object = merged(&Value::Object(object), &patch).as_object().cloned().expect("an object");
    }
    let list = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "tasks": {"type": "array", "items": {"type": "string"}},
    }}}});
    let object = generate(&list, "a", &[], 1).expect("an object");
    let patch = change(&list, &object, "a", &[], 1, 0).expect("a change");
    assert_eq!(patch["spec"]["tasks"].as_array().map(Vec::len), Some(2));
}

#[test]
fn nested_lists_do_not_multiply() {
    let mut schema = json!({"type": "string"});
    for _ in 0..8 {
        schema = json!({"type": "array", "minItems": 100, "items": schema});
    }
    let mut generator =
        Generator { random: Random::new(1), name: "a", kinds: &[], sparse: 0, left: MAX_OPTIONAL, values: 0 };
    assert!(generator.value(&schema, "", 1).to_string().len() < 1_000_000);
}

/// Any JSON value, with the members of schemas.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![
            Just("string"),
            Just("integer"),
            Just("array"),
            Just("object"),
            Just("a"),
            Just("é[a-c]{2}")
        ]
        .prop_map(Value::from),
    ];
    let member = prop_oneof![
        Just("type"),
        Just("properties"),
        Just("items"),
        Just("required"),
        Just("enum"),
        Just("default"),
        Just("minimum"),
        Just("maximum"),
        Just("multipleOf"),
        Just("minLength"),
        Just("maxLength"),
        Just("minItems"),
        Just("oneOf"),
        Just("pattern"),
        Just("additionalProperties"),
        Just("x-kubernetes-validations"),
        Just("a"),
        Just("exclusiveMinimum"),
    ];
    leaf.prop_recursive(5, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(member.clone(), inner, 0..6).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_schema_makes_the_generator_panic(schema in any_schema(), seed: u64) {
        let schema = json!({"type": "object", "properties": {"spec": schema}});
        let mut generator =
            Generator { random: Random::new(seed), name: "sample-a", kinds: &[], sparse: 0, left: MAX_OPTIONAL, values: 0 };
        let value = generator.root(&schema);
        let _ = validate(&schema, &value, None);
        if let Value::Object(object) = value {
            let _ = change(&schema, &object, "sample-a", &[], seed, 0);
        }
    }
}

#[test]
fn large_schemas_give_small_objects() {
    let mut schema = json!({"type": "string"});
    for _ in 0..5 {
        let properties: Map<String, Value> =
            (0..6).map(|index| (format!("m{index}"), schema.clone())).collect();
        schema = json!({"type": "object", "properties": properties});
    }
    let object = generate(&schema, "a", &[], 1).expect("an object");
    assert!(Value::Object(object).to_string().len() < 5000);
}

#[test]
fn the_same_seed_gives_the_same_object() {
    let schema = schema();
    assert_eq!(generate(&schema, "a", &[], 7), generate(&schema, "a", &[], 7));
    let different =
        (0..20).filter(|seed| generate(&schema, "a", &[], *seed) != generate(&schema, "a", &[], 7)).count();
    assert!(different > 10);
}

#[test]
fn what_cannot_be_generated_says_why() {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^\\bx$"}},
    }}});
    let error = generate(&schema, "a", &[], 1).expect_err("not supported");
    assert!(error.starts_with(".spec.a does not match the pattern"), "{error}");
    let fixed = json!({"type": "object", "properties": {"spec": {
        "type": "object", "required": ["a"], "properties": {"a": {"type": "string", "enum": ["x"]}},
    }}});
    let object = generate(&fixed, "a", &[], 1).expect("an object");
    assert_eq!(change(&fixed, &object, "a", &[], 1, 0), None);
}
