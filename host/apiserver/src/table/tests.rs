//! Tests of the tables.

use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:05:00Z".parse().expect("a time")
}

fn cells(group: &str, kind: &str, mut object: Value) -> Vec<Value> {
    object["metadata"]["name"] = json!("x");
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let table = Columns::built_in(group, kind).table([&object], json!({}), IncludeObject::None, now());
    table["rows"][0]["cells"].as_array().cloned().expect("cells")
}

fn headers(columns: &Columns, wide: bool) -> Vec<String> {
    let all = columns.definitions.as_array().expect("definitions").iter();
    let shown = all.filter(|column| wide || column["priority"] == 0);
    shown.map(|column| column["name"].as_str().unwrap_or_default().to_uppercase()).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "callers build the value for this call")]
fn pod(status: Value) -> Vec<Value> {
    cells("", "Pod", json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, "status": status}))
}

#[test]
fn headers_match_kube_apiserver() {
    let of = |group, kind| headers(&Columns::built_in(group, kind), false).join(" ");
    assert_eq!(of("", "Pod"), "NAME READY STATUS RESTARTS AGE");
    assert_eq!(of("apps", "Deployment"), "NAME READY UP-TO-DATE AVAILABLE AGE");
    assert_eq!(of("apps", "DaemonSet"), "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE");
    assert_eq!(of("", "Service"), "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE");
    assert_eq!(of("", "Event"), "LAST SEEN TYPE REASON OBJECT MESSAGE");
    assert_eq!(of("", "ConfigMap"), "NAME DATA AGE");
    assert_eq!(of("batch", "Job"), "NAME STATUS COMPLETIONS DURATION AGE");
    assert_eq!(of("coordination.k8s.io", "Lease"), "NAME HOLDER AGE");
    assert_eq!(of("apiextensions.k8s.io", "CustomResourceDefinition"), "NAME CREATED AT");
    assert_eq!(of("rbac.authorization.k8s.io", "Role"), "NAME CREATED AT");
    let wide = headers(&Columns::built_in("", "Pod"), true);
    assert_eq!(wide[5..].join(" "), "IP NODE NOMINATED NODE READINESS GATES");
}

#[test]
fn pod_status_summarizes_its_containers() {
    assert_eq!(pod(json!({"phase": "Pending"}))[1..5], ["0/2", "Pending", "0", "5m"]);
    let running = json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [
        {"ready": true, "restartCount": 2, "state": {"running": {}},
         "lastState": {"terminated": {"finishedAt": "2026-01-01T00:04:00Z"}}},
        {"ready": false, "restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ]});
    assert_eq!(
        pod(running),
        ["x", "1/2", "CrashLoopBackOff", "2 (60s ago)", "5m", "10.0.0.1", "<none>", "<none>", "<none>"]
    );
    let failed =
        json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]});
    assert_eq!(pod(failed)[2], "ExitCode:3");
    let init = json!({"phase": "Pending", "initContainerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
    assert_eq!(pod(init)[2], "Init:ImagePullBackOff");
    let done = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
        {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}, {"ready": true, "state": {"running": {}}}]});
    assert_eq!(pod(done)[2], "Running");
    let object =
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:04:00Z"}, "status": {"phase": "Running"}});
    assert_eq!(cells("", "Pod", object)[2], "Terminating");
}

#[test]
fn workloads_show_their_replicas() {
    let deployment = json!({
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                 "template": {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}}},
        "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}
    });
    assert_eq!(
        cells("apps", "Deployment", deployment.clone()),
        [
            json!("x"),
            json!("2/3"),
            json!(3),
            json!(1),
            json!("5m"),
            json!("a,b"),
            json!("i,j"),
            json!("app=web")
        ]
    );
    assert_eq!(cells("apps", "StatefulSet", deployment)[1], "2/3");
}

#[test]
fn services_nodes_and_events_have_kubectls_cells() {
    let service = json!({"spec": {"type": "NodePort", "clusterIP": "10.96.0.1", "selector": {"b": "2", "a": "1"},
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}});
    assert_eq!(
        cells("", "Service", service)[1..],
        ["NodePort", "10.96.0.1", "<none>", "80:30080/TCP,53/UDP", "5m", "a=1,b=2"]
    );
    let node = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.37.0"}}});
    assert_eq!(cells("", "Node", node)[1..5], ["Ready,SchedulingDisabled", "control-plane", "5m", "v1.37.0"]);
    let event = json!({"involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "Started",
        "message": " ok ", "lastTimestamp": "2026-01-01T00:04:30Z", "source": {"component": "c", "host": "h"}});
    assert_eq!(
        cells("", "Event", event),
        [
            json!("30s"),
            json!("Normal"),
            json!("Started"),
            json!("pod/p"),
            json!(""),
            json!("c, h"),
            json!("ok"),
            json!("<unknown>"),
            json!(1),
            json!("x")
        ]
    );
    let modern = json!({"regarding": {"kind": "Foo", "name": "f"}, "note": "done", "eventTime": "2026-01-01T00:04:00.000000Z"});
    let shown = cells("events.k8s.io", "Event", modern);
    assert_eq!((&shown[0], &shown[3], &shown[6]), (&json!("60s"), &json!("foo/f"), &json!("done")));
}

#[test]
fn custom_resources_have_the_printer_columns_of_their_crd() {
    let columns = Columns::custom(&json!([
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    ]))
    .expect("valid columns");
    assert_eq!(headers(&columns, false), ["NAME", "REPLICAS", "READY", "AGE"]);
    let object = json!({
        "metadata": {"name": "f", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicas": 2, "paused": false}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}
    });
    let table = columns.table([&object], json!({"resourceVersion": "7"}), IncludeObject::Metadata, now());
    assert_eq!(table["metadata"]["resourceVersion"], "7");
    assert_eq!(table["rows"][0]["cells"], json!(["f", 2, "True", false, "5m"]));
    assert_eq!(
        table["rows"][0]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
    );
    let bare = json!({"metadata": {"name": "g"}});
    let table = columns.table([&bare], json!({}), IncludeObject::Object, now());
    assert_eq!(table["rows"][0], json!({"cells": ["g", null, null, null, null], "object": bare}));
    assert!(Columns::custom(&json!([{"name": "X", "jsonPath": "nope"}])).is_err());
}

#[test]
fn columns_of_labels_with_escaped_dots_in_quotes_are_shown() {
    // The column of cluster-api's CRDs.
    let path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']";
    let columns =
        Columns::custom(&json!([{"name": "Cluster", "type": "string", "jsonPath": path}])).expect("valid");
    let object = json!({"metadata": {"name": "f", "labels": {"cluster.x-k8s.io/cluster-name": "blue"}}});
    let table = columns.table([&object], json!({}), IncludeObject::Metadata, now());
    assert_eq!(table["rows"][0]["cells"], json!(["f", "blue"]));
}

#[test]
fn custom_resource_without_printer_columns_shows_name_and_age() {
    let columns = Columns::custom(&Value::Null).expect("the default");
    assert_eq!(headers(&columns, true), ["NAME", "AGE"]);
}

#[test]
fn only_the_first_event_of_a_watch_has_column_definitions() {
    let columns = Columns::built_in("", "ConfigMap");
    let object = json!({"metadata": {"name": "c", "resourceVersion": "9"}, "data": {"a": "b"}});
    let first = columns.event_table(&object, true, IncludeObject::Metadata, now());
    assert_eq!(first["columnDefinitions"].as_array().map(Vec::len), Some(3));
    let second = columns.event_table(&object, false, IncludeObject::Metadata, now());
    assert_eq!(second["columnDefinitions"], Value::Null);
    assert_eq!(second["metadata"]["resourceVersion"], "9");
    assert_eq!(second["rows"][0]["cells"][1], 1);
}
