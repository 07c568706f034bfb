//! Tests of the schemas of built-in kinds.

use serde_json::{Value, json};

use super::errors;
use crate::schema::{KINDS, Schema};

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
fn every_built_in_kind_has_a_schema_with_metadata() {
    for kind in KINDS {
        let schema = Schema::builtin(kind.group, kind.version, kind.kind).expect("built in");
        assert!(schema.root().field("metadata").is_some(), "{kind:?}");
        assert!(schema.root().field("apiVersion").is_some(), "{kind:?}");
    }
    assert!(Schema::builtin("apps", "v1", "Nothing").is_none());
}

#[test]
fn deployment_gets_kubernetes_defaults() {
    let schema = built_in("apps/v1", "Deployment");
    let mut value = deployment();
    schema.apply_defaults(&mut value).expect("the defaults fit");
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
    let defaulted = value.clone();
    schema.apply_defaults(&mut value).expect("the defaults fit");
    assert_eq!(value, defaulted, "defaulting is idempotent");
    assert!(errors(&schema, &value, None).is_empty());
}

#[test]
fn image_pull_policy_depends_on_the_tag() {
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
        schema.apply_defaults(&mut pod).expect("the defaults fit");
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn services_and_secrets_get_kubernetes_defaults() {
    let mut service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let schema = built_in("v1", "Service");
    schema.apply_defaults(&mut service).expect("the defaults fit");
    assert_eq!(
        service["spec"],
        json!({
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]
        })
    );
    let mut secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "hello"}, "data": {"b": "eA=="}});
    built_in("v1", "Secret").apply_defaults(&mut secret).expect("the defaults fit");
    assert_eq!(secret["data"], json!({"a": "aGVsbG8=", "b": "eA=="}));
    assert_eq!(secret["type"], "Opaque");
    assert!(secret.get("stringData").is_none());
}

#[test]
fn deployment_selector_must_match_the_template_and_is_immutable() {
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
    assert_eq!(
        errors(&schema, &value, None),
        [
            "spec.selector: Required value",
            r#"spec.template.metadata.labels: Invalid value: {"app":"other"}: `selector` does not match template `labels`"#
        ]
    );
    let mut changed = deployment();
    changed["spec"]["selector"]["matchLabels"] = json!({"app": "web", "x": "y"});
    changed["spec"]["template"]["metadata"]["labels"] = json!({"app": "web", "x": "y"});
    assert_eq!(
        errors(&schema, &changed, Some(&deployment())),
        [r#"spec.selector: Invalid value: {"matchLabels":{"app":"web","x":"y"}}: field is immutable"#]
    );
}

#[test]
fn containers_require_a_name_and_an_image() {
    let schema = built_in("apps/v1", "Deployment");
    let mut value = deployment();
    value["spec"]["template"]["spec"]["containers"] = json!([{"name": "A b"}, {"image": "x"}]);
    let found = errors(&schema, &value, None);
    assert!(
        found.iter().any(|error| error == "spec.template.spec.containers[0].image: Required value"),
        "{found:?}"
    );
    assert!(
        found.iter().any(|error| error == "spec.template.spec.containers[1].name: Required value"),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|error| error.contains("containers[0].name: Invalid value: \"A b\": a lowercase RFC 1123"))
    );
}

#[test]
fn names_labels_and_data_keys_are_validated() {
    let schema = built_in("v1", "ConfigMap");
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a/b": "x"},
        "metadata": {"name": "Bad_Name", "labels": {"-k": "v v"}}
    });
    let found = errors(&schema, &value, None);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(
        found[0].starts_with(r#"metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain"#)
    );
    assert!(found[1].starts_with(r#"metadata.labels: Invalid value: "-k": name part must consist of"#));
    assert!(found[3].starts_with(r#"data[a/b]: Invalid value: "a/b": a valid config key"#));
}

#[test]
fn pruning_built_in_kinds_removes_unknown_fields_nulls_and_empty_collections() {
    let schema = built_in("apps/v1", "Deployment");
    let mut value = deployment();
    value["metadata"]["creationTimestamp"] = Value::Null;
    value["metadata"]["annotations"] = json!({});
    value["spec"]["replica"] = json!(3);
    value["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = json!("x");
    value["spec"]["template"]["spec"]["containers"][0]["env"] = json!([]);
    value["spec"]["template"]["spec"]["securityContext"] = json!({});
    assert_eq!(
        schema.prune_strictly(&mut value.clone()),
        [
            r#"unknown field "spec.replica""#,
            r#"unknown field "spec.template.spec.containers[0].imagePolicy""#
        ]
    );
    schema.prune(&mut value);
    let mut expected = deployment();
    expected["spec"]["template"]["spec"]["securityContext"] = json!({});
    assert_eq!(value, expected, "empty structs stay, empty maps and lists do not");
}

#[test]
fn pruning_built_in_kinds_removes_zeros_that_go_omits() {
    let schema = built_in("apps/v1", "StatefulSet");
    let mut value = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a", "generateName": ""},
        "spec": {
            "serviceName": "", "replicas": 0, "minReadySeconds": 0, "selector": {"matchLabels": {"a": ""}},
            "template": {"spec": {"hostNetwork": false, "automountServiceAccountToken": false, "priority": 0,
                "containers": [{"name": "a", "image": "", "tty": false}]}},
        },
    });
    schema.prune(&mut value);
    // Pointers, map entries and `serviceName` stay.
    assert_eq!(
        value["spec"],
        json!({
            "serviceName": "", "replicas": 0, "selector": {"matchLabels": {"a": ""}},
            "template": {"spec": {"automountServiceAccountToken": false, "priority": 0, "containers": [{"name": "a"}]}},
        })
    );
    assert_eq!(value["metadata"], json!({"name": "a"}));
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
    value["spec"]["replicas"] = json!(1_u64 << 31);
    assert_eq!(
        schema.decode_error(&value).as_deref(),
        Some(
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal number 2147483648 \
             into Go struct field DeploymentSpec.spec.replicas of type int32"
        )
    );
    value["spec"]["replicas"] = json!(i32::MAX);
    assert_eq!(schema.decode_error(&value), None);
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
fn crds_with_arbitrary_json_in_their_schema_are_decoded() {
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
    assert!(
        schema.prune_strictly(&mut value.clone()).is_empty(),
        "{:?}",
        schema.prune_strictly(&mut value.clone())
    );
    schema.apply_defaults(&mut value).expect("the defaults fit");
    assert_eq!(
        value["spec"]["names"],
        json!({"kind": "Foo", "plural": "foos", "singular": "foo", "listKind": "FooList"})
    );
    assert_eq!(value["spec"]["conversion"], json!({"strategy": "None"}));
}

#[test]
fn malformed_times_quantities_and_bytes_are_decoding_errors() {
    let pod = |cpu: &str| json!({"spec": {"containers": [{"name": "a", "image": "i", "resources": {"limits": {"cpu": cpu}}}]}});
    let schema = built_in("v1", "Pod");
    assert_eq!(schema.decode_error(&pod("500m")), None);
    let quantity = schema.decode_error(&pod("much")).expect("no quantity");
    assert!(
        quantity.starts_with("Pod in version \"v1\" cannot be handled as a Pod: quantities must match"),
        "{quantity}"
    );
    let secret = json!({"data": {"a": "not base64!"}});
    let bytes = built_in("v1", "Secret").decode_error(&secret).expect("no base64");
    assert_eq!(
        bytes,
        "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 3"
    );
    let time = built_in("v1", "Event").decode_error(&json!({"firstTimestamp": "soon"})).expect("no time");
    assert!(time.contains("parsing time \"soon\""), "{time}");
}

#[test]
fn defaulting_canonicalizes_quantities() {
    let mut pod = json!({"spec": {"containers": [
        {"name": "a", "image": "i", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}}}
    ]}});
    built_in("v1", "Pod").apply_defaults(&mut pod).expect("the defaults fit");
    assert_eq!(
        pod["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}})
    );
}

/// Returns the specification of a Service with its defaults.
fn service_spec(spec: &Value) -> Value {
    let mut value = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec});
    built_in("v1", "Service").apply_defaults(&mut value).expect("the defaults fit");
    value["spec"].take()
}

#[test]
fn target_port_that_a_go_client_leaves_out_is_the_port() {
    for target in [json!(0), json!(""), Value::Null] {
        let spec = service_spec(&json!({"ports": [{"port": 80, "targetPort": target}]}));
        assert_eq!(spec["ports"][0]["targetPort"], 80);
    }
    let spec = service_spec(&json!({"ports": [{"port": 80, "targetPort": "http"}]}));
    assert_eq!(spec["ports"][0]["targetPort"], "http");
}

#[test]
fn session_affinity_has_a_configuration_only_for_client_addresses() {
    let config = |affinity: Value, config: Value| {
        service_spec(&json!({"sessionAffinity": affinity, "sessionAffinityConfig": config}))
    };
    let own = json!({"clientIP": {"timeoutSeconds": 5}});
    for affinity in [json!("None"), json!(""), Value::Null] {
        let spec = config(affinity, own.clone());
        assert_eq!(
            (&spec["sessionAffinity"], &spec["sessionAffinityConfig"]),
            (&json!("None"), &Value::Null)
        );
    }
    assert_eq!(config(json!("ClientIP"), own.clone())["sessionAffinityConfig"], own);
    for partial in [json!({}), json!({"clientIP": {}}), Value::Null] {
        let spec = config(json!("ClientIP"), partial);
        assert_eq!(spec["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
    }
}

#[test]
fn ports_of_the_host_are_set_in_pods_and_not_in_templates() {
    let spec = json!({"hostNetwork": true, "containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80}]}]});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
    built_in("v1", "Pod").apply_defaults(&mut pod).expect("the defaults fit");
    assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
    let mut value = deployment();
    value["spec"]["template"]["spec"] = spec;
    built_in("apps/v1", "Deployment").apply_defaults(&mut value).expect("the defaults fit");
    let port = &value["spec"]["template"]["spec"]["containers"][0]["ports"][0];
    assert_eq!(*port, json!({"containerPort": 80, "protocol": "TCP"}));
}

#[test]
fn fields_that_go_completes_with_zeros_may_be_absent() {
    let pod = json!({
        "containers": [{"name": "a", "image": "i", "lifecycle": {"preStop": {"sleep": {}}}}],
        "securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced"}]},
        "volumes": [{"name": "v", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:a"}}],
    });
    for (api_version, kind, spec) in [
        ("v1", "Pod", pod),
        ("v1", "LimitRange", json!({"limits": null})),
        ("v1", "LimitRange", json!({})),
        ("storage.k8s.io/v1", "CSINode", json!({"drivers": null})),
    ] {
        let schema = built_in(api_version, kind);
        let mut value =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        schema.apply_defaults(&mut value).expect("the defaults fit");
        assert_eq!(errors(&schema, &value, None), [""; 0], "{kind}");
    }
}

#[test]
fn stateful_set_can_mount_the_claims_of_its_templates() {
    let mut value = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"},
        "spec": {
            "serviceName": "s", "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"hostname": "A_B", "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "d"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    let schema = built_in("apps/v1", "StatefulSet");
    schema.apply_defaults(&mut value).expect("the defaults fit");
    assert_eq!(errors(&schema, &value, None), [""; 0]);
    value["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["name"] = json!("e");
    assert_eq!(errors(&schema, &value, None).len(), 1);
}
