//! Rules of built-in kinds beyond their schemas.

use serde_json::{Value, json};

use super::super::Schema;

/// Returns the fields of the causes of an object of the kind, with their reasons.
pub(super) fn fields(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let version = if kind == "HorizontalPodAutoscaler" { "v2" } else { "v1" };
    let schema = Schema::builtin(group, version, kind).expect("a built-in kind");
    let mut object = object.clone();
    object["apiVersion"] =
        if group.is_empty() { version.into() } else { format!("{group}/{version}").into() };
    object["kind"] = kind.into();
    if object["metadata"].is_null() {
        object["metadata"] = json!({"name": "a"});
    }
    schema.apply_defaults(&mut object).expect("the defaults fit");
    let causes = schema.validate(&object, old);
    let short = |reason: &str| reason.trim_start_matches("FieldValue").to_owned();
    causes.iter().map(|cause| format!("{} {}", cause.field, short(&cause.reason))).collect()
}

fn pod(container: &Value) -> Value {
    json!({"spec": {"containers": [container]}})
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn rules_of_single_kinds_name_the_field() {
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = |more: Value| {
        let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"spec": spec})
    };
    let cases: Vec<(&str, &str, Value, &[&str])> = vec![
        (
            "",
            "Secret",
            json!({"type": "kubernetes.io/basic-auth"}),
            &["data[username] Required", "data[password] Required"],
        ),
        (
            "",
            "Secret",
            json!({"type": "kubernetes.io/service-account-token"}),
            &["metadata.annotations[kubernetes.io/service-account.name] Required"],
        ),
        (
            "",
            "Secret",
            json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}}),
            &["data[.dockerconfigjson] Invalid"],
        ),
        ("", "Service", json!({"spec": {"type": "ExternalName"}}), &["spec.externalName Required"]),
        (
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 1, "nodePort": 30000}]}}),
            &["spec.ports[0].nodePort Forbidden"],
        ),
        (
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]}}),
            &["spec.ports[1].name Duplicate"],
        ),
        (
            "",
            "Event",
            json!({"metadata": {"name": "a", "namespace": "n"}, "involvedObject": {"namespace": "m"}}),
            &["involvedObject.namespace Invalid"],
        ),
        (
            "",
            "Node",
            json!({"spec": {"taints": [{"key": "a b", "effect": "X"}]}}),
            &["metadata.taints[0].key Invalid", "metadata.taints[0].effect NotSupported"],
        ),
        (
            "",
            "ResourceQuota",
            json!({"spec": {"hard": {"pods": -1, "other": 1}}}),
            &["spec.hard[other] Invalid", "spec.hard[other] Invalid", "spec.hard[pods] Invalid"],
        ),
        (
            "",
            "LimitRange",
            json!({"spec": {"limits": [{"type": "Pod", "min": {"cpu": 2}, "max": {"cpu": 1}}]}}),
            &["spec.limits[0].min[cpu] Invalid"],
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"spec": {}}),
            &["spec.accessModes Required", "spec.resources[storage] Required"],
        ),
        (
            "",
            "PersistentVolume",
            json!({"spec": {"capacity": {"storage": 1}, "accessModes": ["ReadWriteOnce"]}}),
            &["spec Required"],
        ),
        (
            "",
            "Endpoints",
            json!({"subsets": [{"addresses": [{"ip": "0.0.0.0"}], "ports": [{"port": 0}]}]}),
            &["subsets[0].addresses[0].ip Invalid", "subsets[0].ports[0].port Invalid"],
        ),
        (
            "apps",
            "Deployment",
            workload(json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}})),
            &["spec.strategy.rollingUpdate Forbidden"],
        ),
        (
            "apps",
            "Deployment",
            workload(json!({"minReadySeconds": 9, "progressDeadlineSeconds": 9})),
            &["spec.progressDeadlineSeconds Invalid"],
        ),
        (
            "apps",
            "StatefulSet",
            workload(json!({"podManagementPolicy": "X"})),
            &["spec.podManagementPolicy Invalid"],
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"spec": {
                "minReplicas": 5, "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            }}),
            &["spec.maxReplicas Invalid"],
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "110%"}}),
            &["spec.minAvailable Invalid"],
        ),
        ("scheduling.k8s.io", "PriorityClass", json!({"value": 2_000_000_000}), &["value Forbidden"]),
        ("networking.k8s.io", "Ingress", json!({"spec": {}}), &["spec Invalid"]),
        (
            "networking.k8s.io",
            "IngressClass",
            json!({"spec": {"controller": "bad"}}),
            &["spec.controller Invalid"],
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {}, "egress": [{"to": [
                {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "10.1.0.0/16"]}}, {},
            ]}]}}),
            &["spec.egress[0].to[0].ipBlock.except[0] Invalid", "spec.egress[0].to[1] Required"],
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"leaseDurationSeconds": 0}}),
            &["spec.leaseDurationSeconds Invalid"],
        ),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": []}]}),
            &["endpoints[0].addresses Required"],
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            json!({"provisioner": "", "reclaimPolicy": "X"}),
            &["provisioner Required", "reclaimPolicy NotSupported"],
        ),
    ];
    for (group, kind, object, expected) in cases {
        assert_eq!(fields(group, kind, &object, None), expected, "{kind}: {object}");
    }
}

#[test]
fn rules_of_pods_name_the_field() {
    let cases: Vec<(Value, &[&str])> = vec![
        (pod(&json!({"name": "c", "image": "i"})), &[]),
        (
            pod(&json!({"name": "c", "image": "i", "env": [{"name": "", "value": "x"}]})),
            &["spec.containers[0].env[0].name Required"],
        ),
        (
            pod(
                &json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}}),
            ),
            &["spec.containers[0].resources.requests Invalid"],
        ),
        (
            pod(&json!({"name": "c", "image": "i", "livenessProbe": {"periodSeconds": -1}})),
            &[
                "spec.containers[0].livenessProbe Required",
                "spec.containers[0].livenessProbe.periodSeconds Invalid",
            ],
        ),
        (
            json!({"spec": {"restartPolicy": "X", "containers": [{"name": "c", "image": "i"}]}}),
            &["spec.restartPolicy NotSupported"],
        ),
        (
            json!({"spec": {"tolerations": [{"effect": "Y", "key": "a"}], "containers": [{"name": "c", "image": "i"}]}}),
            &["spec.tolerations[0].effect NotSupported"],
        ),
        (
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}], "containers": [{"name": "c", "image": "i"}]}}),
            &["spec.volumes[0].hostPath Forbidden"],
        ),
    ];
    for (object, expected) in cases {
        assert_eq!(fields("", "Pod", &object, None), expected, "{object}");
    }
}

#[test]
fn owners_and_finalizers_are_checked_together() {
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": true});
    let object = json!({"metadata": {
        "name": "a", "ownerReferences": [owner("x"), owner("y")], "finalizers": ["bad", "orphan", "foregroundDeletion"],
    }});
    let expected =
        ["metadata.ownerReferences Invalid", "metadata.finalizers Invalid", "metadata.finalizers[0] Invalid"];
    assert_eq!(fields("", "ConfigMap", &object, None), expected);
    let old = json!({"metadata": {"name": "a", "finalizers": ["bad"]}});
    let kept = json!({"metadata": {"name": "a", "finalizers": ["bad"]}});
    assert!(fields("", "ConfigMap", &kept, Some(&old)).is_empty(), "a stored finalizer stays valid");
}

#[test]
fn status_is_checked_when_it_changes() {
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let with = |status: Value| json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
    let bad = with(json!({"replicas": 1, "readyReplicas": 2}));
    assert_eq!(fields("apps", "ReplicaSet", &bad, Some(&with(json!({})))), ["status.readyReplicas Invalid"]);
    assert!(fields("apps", "ReplicaSet", &bad, Some(&bad)).is_empty());
}

#[test]
fn events_with_a_time_need_a_reporter_and_a_reason() {
    let event = |namespace: &str, more: Value| {
        let mut event = json!({
            "metadata": {"name": "a", "namespace": namespace}, "involvedObject": {"kind": "Node", "name": "n"},
            "eventTime": "2024-01-01T00:00:00.000000Z", "reportingComponent": "c", "reportingInstance": "i",
            "action": "a", "reason": "r",
        });
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        event
    };
    let long = "x".repeat(129);
    let cases: Vec<(Value, &[&str])> = vec![
        (event("kube-system", json!({})), &[]),
        (event("other", json!({})), &["involvedObject.namespace Invalid"]),
        (event("other", json!({"involvedObject": {"namespace": "n"}})), &[]),
        (
            event(
                "default",
                json!({"reportingComponent": "", "reportingInstance": "", "action": "", "reason": long}),
            ),
            &[
                "reportingComponent Required",
                "reportingComponent Invalid",
                "reportingComponent Invalid",
                "reportingInstance Required",
                "action Required",
                "reason Invalid",
            ],
        ),
        (event("default", json!({"message": "x".repeat(1025)})), &["message Invalid"]),
    ];
    for (object, expected) in cases {
        assert_eq!(fields("", "Event", &object, None), expected, "{object}");
    }
}

#[test]
fn events_of_the_new_group_keep_everything_but_their_series() {
    let event = |more: Value| {
        let mut event = json!({
            "metadata": {"name": "a", "namespace": "n"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "n"},
            "eventTime": "2024-01-01T00:00:00.000001Z", "reportingController": "c", "reportingInstance": "i",
            "action": "a", "reason": "r", "type": "Normal",
        });
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        event
    };
    let created: Vec<(Value, &[&str])> = vec![
        (event(json!({})), &[]),
        (event(json!({"metadata": {"name": "A", "namespace": "n"}})), &["metadata.name Invalid"]),
        (
            event(json!({"series": {"count": 1, "lastObservedTime": null}})),
            &["series.count Invalid", "series.lastObservedTime Required"],
        ),
        (event(json!({"eventTime": null, "type": ""})), &["eventTime Required", "type Invalid"]),
        (
            event(
                json!({"deprecatedCount": 1, "deprecatedSource": {"host": "h"}, "deprecatedFirstTimestamp": "2024-01-01T00:00:00Z"}),
            ),
            &["firstTimestamp Invalid", "count Invalid", "source Invalid"],
        ),
    ];
    for (object, expected) in created {
        assert_eq!(fields("events.k8s.io", "Event", &object, None), expected, "{object}");
    }
    let old = event(json!({}));
    let updated: Vec<(Value, &[&str])> = vec![
        (event(json!({"series": {"count": 2, "lastObservedTime": "2024-01-01T00:00:00.000000Z"}})), &[]),
        (event(json!({"eventTime": "2024-01-01T00:00:00.000001234Z"})), &[]),
        (
            event(
                json!({"reason": "s", "note": "m", "related": {"kind": "Pod"}, "eventTime": "2024-01-01T00:00:01.000000Z"}),
            ),
            &["reason Invalid", "message Invalid", "reason Invalid", "eventTime Invalid", "related Invalid"],
        ),
    ];
    for (object, expected) in updated {
        assert_eq!(fields("events.k8s.io", "Event", &object, Some(&old)), expected, "{object}");
    }
}

#[test]
fn the_causes_of_an_object_with_many_controllers_have_a_bounded_size() {
    let owners: Vec<Value> =
        (0..5_000).map(|number| json!({"controller": true, "uid": number.to_string()})).collect();
    let object = json!({"metadata": {"name": "a", "ownerReferences": owners}});
    let schema = Schema::builtin("", "v1", "ConfigMap").expect("a built-in kind");
    let causes = schema.validate(&object, None);
    let length: usize = causes.iter().map(|cause| cause.message.len()).sum();
    assert!(length < 4 << 20, "{length} bytes");
}
