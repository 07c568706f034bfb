use serde_json::{Value, json};

use super::Schema;

fn crd(properties: &Value) -> Schema {
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    Schema::from_crd(&schema).expect("the schema is structural")
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec})
}

fn errors(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<String> {
    schema.validate(new, old).iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

fn built_in(api_version: &str, kind: &str) -> std::sync::Arc<Schema> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Schema::builtin(group, version, kind).unwrap_or_else(|| panic!("{api_version} {kind} is built in"))
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}]}]}
            }
        }
    })
}

#[test]
fn wrong_types_are_reported_as_kubernetes_reports_them() {
    let schema = crd(&json!({"replicas": {"type": "integer", "minimum": 1, "maximum": 10}}));
    let wrong = errors(&schema, &object(&json!({"replicas": "string"})), None);
    assert_eq!(
        wrong,
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

#[test]
fn limits_of_strings_lists_and_maps_hold() {
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
    let one = |spec: Value| errors(&schema, &object(&spec), None);
    assert_eq!(
        one(json!({"name": "a"})),
        [r#"spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#]
    );
    assert_eq!(one(json!({"name": "abcd"})), ["spec.name: Too long: may not be more than 3 bytes"]);
    assert_eq!(
        one(json!({"name": "A1"})),
        [r#"spec.name: Invalid value: "A1": spec.name in body should match '^[a-z]+$'"#]
    );
    assert_eq!(
        one(json!({"tier": "tin"})),
        [r#"spec.tier: Unsupported value: "tin": supported values: "gold", "silver""#]
    );
    assert_eq!(
        one(json!({"when": "soon"})),
        [r#"spec.when: Invalid value: "soon": spec.when in body must be of type date-time: "soon""#]
    );
    assert_eq!(one(json!({"list": ["a", "b"]})), ["spec.list: Too many: 2: must have at most 1 item"]);
    assert_eq!(
        one(json!({"map": {"a": true}})),
        [r#"spec.map.a: Invalid value: "boolean": spec.map.a in body must be of type integer: "boolean""#]
    );
    assert!(one(json!({"port": 80})).is_empty() && one(json!({"port": "http"})).is_empty());
    assert_eq!(one(json!({"port": true})).len(), 1);
    assert!(one(json!({"maybe": null})).is_empty());
    assert_eq!(one(json!({"name": null})).len(), 1, "null is not allowed unless nullable");
    assert_eq!(one(json!({"count": 3_000_000_000_u64})).len(), 1);
}

#[test]
fn required_fields_and_alternatives_are_checked() {
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
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#
        ]
    );
    assert!(errors(&schema, &object(&json!({"b": "x"})), None).is_empty());
    assert_eq!(errors(&schema, &object(&json!({"a": "x", "b": "x"})), None).len(), 1);
}

#[test]
fn list_types_demand_unique_items() {
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
fn what_was_wrong_before_and_is_unchanged_is_let_through() {
    let schema = crd(&json!({"n": {"type": "integer", "minimum": 5}, "m": {"type": "integer"}}));
    let old = object(&json!({"n": 1, "m": 1}));
    assert!(errors(&schema, &object(&json!({"n": 1, "m": 2})), Some(&old)).is_empty());
    assert_eq!(errors(&schema, &object(&json!({"n": 2, "m": 1})), Some(&old)).len(), 1);
}

#[test]
fn cel_rules_see_self_and_old_self() {
    let schema = crd(&json!({
        "min": {"type": "integer"}, "max": {"type": "integer"},
        "class": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "class is immutable"}]},
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.port >= oldSelf.port", "message": "ports only grow"}]
            }
        }
    }));
    let old = object(&json!({"class": "a", "ports": [{"name": "x", "port": 1}, {"name": "y", "port": 9}]}));
    assert!(errors(&schema, &old, None).is_empty(), "transition rules do not run on create");
    let new = object(&json!({"class": "b", "ports": [{"name": "y", "port": 8}, {"name": "x", "port": 2}]}));
    assert_eq!(
        errors(&schema, &new, Some(&old)),
        [
            r#"spec.class: Invalid value: "string": class is immutable"#,
            r#"spec.ports[0]: Invalid value: "object": ports only grow"#
        ],
        "old and new items are paired by key, not by index"
    );
}

#[test]
fn cel_rules_fail_with_their_message_or_their_text() {
    let rule = |rule: Value| {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-validations": [rule],
            "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}}
        }}});
        let schema = Schema::from_crd(&schema).expect("structural");
        errors(&schema, &object(&json!({"min": 2, "max": 1})), None)
    };
    assert_eq!(
        rule(json!({"rule": "self.min <= self.max"})),
        [r#"spec: Invalid value: "object": failed rule: self.min <= self.max"#]
    );
    assert_eq!(
        rule(json!({"rule": "self.min <= self.max", "messageExpression": "'min ' + string(self.min)"})),
        [r#"spec: Invalid value: "object": min 2"#]
    );
    assert_eq!(
        rule(
            json!({"rule": "self.min <= self.max", "message": "no", "fieldPath": ".min", "reason": "FieldValueForbidden"})
        ),
        ["spec.min: Forbidden: no"]
    );
}

#[test]
fn cel_rules_wait_until_the_shape_is_right() {
    let schema = crd(&json!({
        "n": {"type": "integer"},
        "m": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]}
    }));
    let wrong = errors(&schema, &object(&json!({"n": "x", "m": 1})), None);
    assert_eq!(wrong.len(), 2);
    assert!(
        wrong[1].starts_with("<nil>: Invalid value: null: some validation rules were not checked"),
        "{wrong:?}"
    );
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    let refused = |schema: Value| -> Vec<String> {
        let causes = Schema::from_crd_at(&schema, "schema").expect_err("not structural");
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    };
    assert_eq!(refused(json!({})), ["schema.type: Required value: must not be empty at the root"]);
    assert_eq!(
        refused(json!({"type": "object", "properties": {"a": {}}})),
        ["schema.properties[a].type: Required value: must not be empty for specified object fields"]
    );
    assert_eq!(
        refused(json!({"type": "object", "properties": {"a": {"type": "array"}}})),
        ["schema.properties[a].items: Required value: must be specified"]
    );
    assert_eq!(
        refused(json!({"type": "object", "oneOf": [{"properties": {"b": {"minimum": 1}}}]})),
        ["schema.properties[b]: Required value: because it is defined in schema.oneOf[0].properties[b]"]
    );
    assert_eq!(
        refused(
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}})
        ),
        [
            "schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but \
          metadata is implicitly specified"
        ]
    );
    let rule = refused(json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.a +"}]}));
    assert!(
        rule[0].starts_with(r#"schema.x-kubernetes-validations[0].rule: Invalid value: "self.a +""#),
        "{rule:?}"
    );
    let keys = refused(json!({"type": "object", "properties": {"l": {
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
fn pruning_drops_what_the_schema_does_not_know_and_names_it() {
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
        schema.unknown_fields(&value),
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
fn defaults_of_custom_resources_fill_gaps_and_nested_objects() {
    let schema = crd(&json!({
        "replicas": {"type": "integer", "default": 2},
        "nested": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "x"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        "nullable": {"type": "string", "nullable": true, "default": "d"},
        "plain": {"type": "string"}
    }));
    let mut value = object(&json!({"replicas": null, "list": [{}], "nullable": null, "plain": null}));
    schema.apply_defaults(&mut value);
    let wanted =
        object(&json!({"replicas": 2, "nested": {"a": "x"}, "list": [{"p": "TCP"}], "nullable": null}));
    assert_eq!(value, wanted);
    schema.apply_defaults(&mut value);
    assert_eq!(value, wanted, "defaulting twice changes nothing");
}

#[test]
fn every_built_in_kind_has_a_schema_with_metadata() {
    for kind in super::KINDS {
        let schema = Schema::builtin(kind.group, kind.version, kind.kind).expect("built in");
        assert!(schema.root().field("metadata").is_some(), "{kind:?}");
        assert!(schema.root().field("apiVersion").is_some(), "{kind:?}");
    }
    assert!(Schema::builtin("apps", "v1", "Nothing").is_none());
}

#[test]
fn a_deployment_is_defaulted_as_by_kubernetes() {
    let schema = built_in("apps/v1", "Deployment");
    let mut value = deployment();
    schema.apply_defaults(&mut value);
    let spec = &value["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["progressDeadlineSeconds"], 600);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Always");
    assert_eq!(pod["dnsPolicy"], "ClusterFirst");
    assert_eq!(pod["terminationGracePeriodSeconds"], 30);
    assert_eq!(pod["schedulerName"], "default-scheduler");
    assert_eq!(pod["securityContext"], json!({}));
    assert_eq!(
        pod["containers"][0],
        json!({
            "name": "web", "image": "nginx:1.27", "imagePullPolicy": "IfNotPresent", "resources": {},
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
        })
    );
    let once = value.clone();
    schema.apply_defaults(&mut value);
    assert_eq!(value, once);
    assert!(errors(&schema, &value, None).is_empty());
}

#[test]
fn the_pull_policy_follows_the_tag() {
    let schema = built_in("v1", "Pod");
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("registry:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ] {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "image": image}]}});
        schema.apply_defaults(&mut pod);
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn services_and_secrets_are_defaulted() {
    let mut service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let schema = built_in("v1", "Service");
    schema.apply_defaults(&mut service);
    assert_eq!(
        service["spec"],
        json!({
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]
        })
    );
    let mut secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "hello"}, "data": {"b": "eA=="}});
    built_in("v1", "Secret").apply_defaults(&mut secret);
    assert_eq!(secret["data"], json!({"a": "aGVsbG8=", "b": "eA=="}));
    assert_eq!(secret["type"], "Opaque");
    assert!(secret.get("stringData").is_none());
}

#[test]
fn deployments_need_a_selector_that_matches_their_template() {
    let schema = built_in("apps/v1", "Deployment");
    let mut value = deployment();
    value["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    assert_eq!(
        errors(&schema, &value, None),
        [
            r#"spec.template.metadata.labels: Invalid value: {"app":"other"}: `selector` does not match template `labels`"#
        ]
    );
    value["spec"].as_object_mut().expect("object").remove("selector");
    assert_eq!(errors(&schema, &value, None), ["spec.selector: Required value"]);
    let mut changed = deployment();
    changed["spec"]["selector"]["matchLabels"] = json!({"app": "web", "x": "y"});
    changed["spec"]["template"]["metadata"]["labels"] = json!({"app": "web", "x": "y"});
    assert_eq!(
        errors(&schema, &changed, Some(&deployment())),
        [r#"spec.selector: Invalid value: {"matchLabels":{"app":"web","x":"y"}}: field is immutable"#]
    );
}

#[test]
fn containers_need_a_name_and_an_image() {
    let schema = built_in("apps/v1", "Deployment");
    let mut value = deployment();
    value["spec"]["template"]["spec"]["containers"] = json!([{"name": "A b"}, {"image": "x"}]);
    let wrong = errors(&schema, &value, None);
    assert!(
        wrong.iter().any(|one| one == "spec.template.spec.containers[0].image: Required value"),
        "{wrong:?}"
    );
    assert!(
        wrong.iter().any(|one| one == "spec.template.spec.containers[1].name: Required value"),
        "{wrong:?}"
    );
    assert!(
        wrong
            .iter()
            .any(|one| one.contains("containers[0].name: Invalid value: \"A b\": a lowercase RFC 1123"))
    );
}

#[test]
fn names_labels_and_keys_are_checked() {
    let schema = built_in("v1", "ConfigMap");
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a/b": "x"},
        "metadata": {"name": "Bad_Name", "labels": {"-k": "v v"}}
    });
    let wrong = errors(&schema, &value, None);
    assert_eq!(wrong.len(), 4, "{wrong:?}");
    assert!(
        wrong[0].starts_with(r#"metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain"#)
    );
    assert!(wrong[1].starts_with(r#"metadata.labels: Invalid value: "-k": name part must consist of"#));
    assert!(wrong[3].starts_with(r#"data[a/b]: Invalid value: "a/b": a valid config key"#));
}

#[test]
fn built_in_objects_lose_unknown_fields_nulls_and_empty_collections() {
    let schema = built_in("apps/v1", "Deployment");
    let mut value = deployment();
    value["metadata"]["creationTimestamp"] = Value::Null;
    value["metadata"]["annotations"] = json!({});
    value["spec"]["replica"] = json!(3);
    value["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = json!("x");
    value["spec"]["template"]["spec"]["containers"][0]["env"] = json!([]);
    value["spec"]["template"]["spec"]["securityContext"] = json!({});
    assert_eq!(
        schema.unknown_fields(&value),
        [
            r#"unknown field "spec.replica""#,
            r#"unknown field "spec.template.spec.containers[0].imagePolicy""#
        ]
    );
    schema.prune(&mut value);
    let mut wanted = deployment();
    wanted["spec"]["template"]["spec"]["securityContext"] = json!({});
    assert_eq!(value, wanted, "structs stay, empty maps and lists go");
}

#[test]
fn type_errors_of_built_in_kinds_are_decoding_errors() {
    let schema = built_in("apps/v1", "Deployment");
    let mut value = deployment();
    assert_eq!(schema.decode_error(&value), None);
    value["spec"]["replicas"] = json!("two");
    assert_eq!(
        schema.decode_error(&value).as_deref(),
        Some(
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go \
             struct field DeploymentSpec.spec.replicas of type int32"
        )
    );
    let mut value = deployment();
    value["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": 1}]);
    assert_eq!(
        schema.decode_error(&value).as_deref(),
        Some(
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal number into Go \
             struct field EnvVar.spec.template.spec.containers.env.value of type string"
        )
    );
}

#[test]
fn crds_with_any_schema_shape_decode() {
    let schema = built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let mut value = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "additionalProperties": {"type": "string"},
                "default": {"a": "b"}, "enum": [1, "x"]}}
            }}}]
        }
    });
    assert_eq!(schema.decode_error(&value), None);
    assert!(schema.unknown_fields(&value).is_empty(), "{:?}", schema.unknown_fields(&value));
    schema.apply_defaults(&mut value);
    assert_eq!(
        value["spec"]["names"],
        json!({"kind": "Foo", "plural": "foos", "singular": "foo", "listKind": "FooList"})
    );
    assert_eq!(value["spec"]["conversion"], json!({"strategy": "None"}));
}
