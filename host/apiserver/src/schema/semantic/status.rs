//! The status of built-in kinds, which controllers and the kubelet write.

use std::net::IpAddr;

use serde_json::Value;

use super::{IP_ADDRESS, NOT_NEGATIVE, entries, items, pod_status, quantity, text, validate_non_negative};
use crate::schema::builtin::BuiltinKind;
use crate::schema::field;
use crate::status::Causes;

/// Checks the status of an updated object, which differs from that of `old`.
pub(super) fn validate(kind: BuiltinKind, new: &Value, old: &Value, causes: &mut Causes) {
    let status = new.get("status").unwrap_or(&Value::Null);
    match (kind.group, kind.kind) {
        ("apps", "Deployment") => {
            let counts =
                ["observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
            validate_counts(status, &counts, causes);
            validate_counts(status, &["unavailableReplicas", "collisionCount"], causes);
            validate_replicas(status, &["updatedReplicas", "readyReplicas", "availableReplicas"], causes);
            validate_available(status, "readyReplicas", causes);
        }
        ("apps", "ReplicaSet") | ("", "ReplicationController") => {
            let counts = [
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
            ];
            validate_counts(status, &counts, causes);
            let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
            validate_replicas(status, &parts, causes);
            validate_available(status, "readyReplicas", causes);
        }
        ("apps", "StatefulSet") => {
            let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
            validate_counts(status, &["replicas"], causes);
            validate_counts(status, &parts, causes);
            validate_counts(status, &["observedGeneration", "collisionCount"], causes);
            validate_replicas(status, &parts, causes);
            validate_available(status, "status.readyReplicas", causes);
        }
        ("apps", "DaemonSet") => {
            let counts = [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ];
            validate_counts(status, &counts, causes);
        }
        ("batch", "Job") => {
            validate_counts(status, &["active", "succeeded", "failed", "ready", "terminating"], causes);
        }
        ("", "Pod") => {
            pod_status::validate(status, old, causes);
            validate_pod(status, causes);
        }
        ("", "Service") => validate_load_balancer(new, old, causes),
        ("", "PersistentVolumeClaim") => {
            for (name, amount) in entries(status.get("capacity")) {
                if quantity::nanos(amount).is_some_and(|nanos| nanos < 0) {
                    let shown = quantity::canonical(amount).unwrap_or_default();
                    let path = field::key("status.capacity", name);
                    causes.push(field::invalid_shown(&path, &shown, "must be a valid resource quantity"));
                }
            }
        }
        _ => {}
    }
}

fn validate_counts(status: &Value, names: &[&str], causes: &mut Causes) {
    for name in names {
        validate_non_negative(status, name, "status", causes);
    }
}

/// Checks that no count of Pods is greater than that of all of them.
fn validate_replicas(status: &Value, names: &[&str], causes: &mut Causes) {
    let all = count(status, "replicas");
    for name in names.iter().filter(|name| count(status, name) > all) {
        let value = count(status, name).into();
        let path = field::child("status", name);
        causes.push(field::invalid(&path, &value, "cannot be greater than status.replicas"));
    }
}

/// Checks that not more Pods are available than ready; `ready` is the name of that count in the message.
fn validate_available(status: &Value, ready: &str, causes: &mut Causes) {
    let available = count(status, "availableReplicas");
    if available > count(status, "readyReplicas") {
        let detail = format!("cannot be greater than {ready}");
        causes.push(field::invalid("status.availableReplicas", &available.into(), &detail));
    }
}

fn count(status: &Value, name: &str) -> i64 {
    status[name].as_i64().unwrap_or(0)
}

fn validate_pod(status: &Value, causes: &mut Causes) {
    for list in ["podIPs", "hostIPs"] {
        let path = field::child("status", list);
        // The single address stands for the list if that is absent.
        let single = list.strip_suffix('s').map(|name| text(status, name)).filter(|ip| !ip.is_empty());
        let listed: Vec<&str> = items(&status[list]).iter().map(|item| text(item, "ip")).collect();
        let addresses = if listed.is_empty() { single.into_iter().collect() } else { listed };
        for (index, address) in addresses.into_iter().enumerate() {
            validate_ip(address, &field::index(&path, index), causes);
        }
    }
    for (index, container) in items(&status["containerStatuses"]).iter().enumerate() {
        let path = field::index("status.containerStatuses", index);
        if container["restartCount"].as_i64().is_some_and(|count| count < 0) {
            let path = field::child(&path, "restartCount");
            causes.push(field::invalid(&path, &container["restartCount"], NOT_NEGATIVE));
        }
    }
}

fn validate_load_balancer(new: &Value, old: &Value, causes: &mut Causes) {
    const PATH: &str = "status.loadBalancer.ingress";
    let ingress = new.pointer("/status/loadBalancer/ingress").unwrap_or(&Value::Null);
    let kind = new.pointer("/spec/type").and_then(Value::as_str).unwrap_or_default();
    let is_changed = old.pointer("/status/loadBalancer/ingress") != Some(ingress);
    if !items(ingress).is_empty() && kind != "LoadBalancer" && is_changed {
        causes.push(field::forbidden(PATH, "may only be used when `spec.type` is \"LoadBalancer\""));
        return;
    }
    for (index, point) in items(ingress).iter().enumerate() {
        let ip = text(point, "ip");
        if !ip.is_empty() {
            validate_ip(ip, &field::child(&field::index(PATH, index), "ip"), causes);
        }
    }
}

fn validate_ip(address: &str, path: &str, causes: &mut Causes) {
    if address.parse::<IpAddr>().is_err() {
        causes.push(field::invalid(path, &Value::from(address), IP_ADDRESS));
    }
}
